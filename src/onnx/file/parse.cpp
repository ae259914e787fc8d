// The only reader of protobuf messages. Initialisers are taken from the file's bytes before
// protobuf sees the rest, so that it does not copy them.
#include <climits>
#include <optional>
#include <utility>

#include "heddle/support/error.h"
#include "heddle_onnx_file.pb.h"
#include "onnx/file/graph.h"
#include "onnx/file/mapped_file.h"
#include "onnx/file/tensor_data.h"
#include "onnx/file/wire.h"

namespace heddle::onnx {

std::string Node::describe() const {
  if (!name.empty()) return "node '" + name + "' (" + op + ")";
  for (const std::string& output : outputs) {
    if (!output.empty()) return "the node of '" + output + "' (" + op + ")";
  }
  return "a node without a name (" + op + ")";
}

namespace {

// Field numbers of ModelProto, GraphProto, TensorProto, FunctionProto.
constexpr int kModelGraph = 7, kGraphInitializer = 5, kTensorRaw = 9, kFunctionDefaults = 11;

class Parser {
 public:
  Parser(std::string path, std::shared_ptr<const MappedFile> file)
      : path_(std::move(path)), file_(file), tensors_(path_, std::move(file)) {}

  Model parse() {
    const std::string_view bytes = file_->bytes();
    if (bytes.size() > INT_MAX)
      throw_user_error(
          "it has " + std::to_string(bytes.size()) + " bytes, and no ONNX file has more than 2 GiB",
          {}, "save the weights as external data");
    std::string rest;
    std::vector<std::string_view> graphs;
    if (bytes.empty() || !for_each_field(bytes, [&](int number, auto payload, auto whole) {
          if (number == kModelGraph && payload)
            graphs.push_back(*payload);
          else
            rest += whole;
        })) {
      not_a_model();
    }
    onnx_file::ModelProto proto;
    if (!proto.ParseFromString(rest) || graphs.size() != 1) not_a_model();
    if (proto.opset_import_size() == 0)
      throw_user_error("it does not say which operator set it uses: it is no ONNX model");
    for (const auto& set : proto.opset_import()) opsets_[domain_of(set.domain())] = set.version();

    Model model;
    model.path = path_;
    model.ir_version = proto.ir_version();
    read_graph(graphs[0], model.graph);
    for (const auto& function : proto.functions())
      model.functions.push_back(read_function(function));
    return model;
  }

 private:
  using Opsets = std::map<std::string, int64_t>;

  [[noreturn]] static void not_a_model() {
    throw_user_error("it is no ONNX model, or it is truncated");
  }

  static std::string domain_of(const std::string& domain) {
    return domain == "ai.onnx" ? "" : domain;
  }

  void read_graph(std::string_view bytes, Graph& graph) {
    std::string rest;
    const bool ok = for_each_field(bytes, [&](int number, auto payload, auto whole) {
      if (number == kGraphInitializer && payload)
        read_initializer(*payload, graph);
      else
        rest += whole;
    });
    onnx_file::GraphProto proto;
    if (!ok || !proto.ParseFromString(rest)) not_a_model();
    read_graph(proto, opsets_, graph);
  }

  // A graph of which all but the initialisers of `graph` is in the message.
  void read_graph(const onnx_file::GraphProto& proto, const Opsets& opsets, Graph& graph) {
    if (proto.sparse_initializer_size() > 0)
      throw_user_error("it has sparse initialisers, which are not supported");
    graph.name = proto.name();
    for (const auto& tensor : proto.initializer()) add_initializer(tensor, {}, graph);
    for (const auto& node : proto.node()) graph.nodes.push_back(read_node(node, opsets));
    for (const auto& input : proto.input()) {
      if (!graph.initializers.count(input.name())) graph.inputs.push_back(read_value(input));
    }
    for (const auto& output : proto.output()) graph.outputs.push_back(read_value(output));
  }

  void read_initializer(std::string_view bytes, Graph& graph) {
    std::string rest;
    std::optional<std::string_view> raw;
    onnx_file::TensorProto proto;
    const bool ok = for_each_field(bytes, [&](int number, auto payload, auto whole) {
      if (number == kTensorRaw && payload)
        raw = *payload;
      else
        rest += whole;
    });
    if (!ok || !proto.ParseFromString(rest)) not_a_model();
    add_initializer(proto, raw, graph);
  }

  void add_initializer(const onnx_file::TensorProto& proto, std::optional<std::string_view> raw,
                       Graph& graph) {
    const std::string what = "initialiser '" + proto.name() + "'";
    if (four_bits_of(proto.data_type())) graph.four_bits.insert(proto.name());
    if (!graph.initializers.emplace(proto.name(), tensors_.read(proto, raw, what)).second)
      throw_user_error("there are two initialisers called '" + proto.name() + "'");
  }

  Node read_node(const onnx_file::NodeProto& proto, const Opsets& opsets) {
    Node node;
    node.name = proto.name();
    node.op = proto.op_type();
    node.domain = domain_of(proto.domain());
    node.inputs.assign(proto.input().begin(), proto.input().end());
    node.outputs.assign(proto.output().begin(), proto.output().end());
    const auto set = opsets.find(node.domain);
    node.opset = set == opsets.end() ? 0 : set->second;
    for (const auto& attribute : proto.attribute()) {
      node.attributes[attribute.name()] = read_attribute(
          attribute, opsets, "attribute '" + attribute.name() + "' of " + node.describe());
    }
    return node;
  }

  Attribute read_attribute(const onnx_file::AttributeProto& proto, const Opsets& opsets,
                           const std::string& what) {
    Attribute result;
    result.reference = proto.ref_attr_name();
    if (!result.reference.empty()) return result;
    if (proto.graphs_size() > 0) throw_user_error(what + " has several graphs");
    if (proto.has_g()) {
      const auto graph = std::make_shared<Graph>();
      read_graph(proto.g(), opsets, *graph);
      result.value = Subgraph(graph);
    } else if (proto.has_t())
      result.value = tensors_.read(proto.t(), {}, what);
    else if (proto.has_f())
      result.value = proto.f();
    else if (proto.has_i())
      result.value = proto.i();
    else if (proto.has_s())
      result.value = proto.s();
    else if (proto.floats_size() > 0 || proto.type() == onnx_file::AttributeProto::FLOATS)
      result.value = std::vector<float>(proto.floats().begin(), proto.floats().end());
    else if (proto.ints_size() > 0 || proto.type() == onnx_file::AttributeProto::INTS)
      result.value = std::vector<int64_t>(proto.ints().begin(), proto.ints().end());
    else if (proto.strings_size() > 0 || proto.type() == onnx_file::AttributeProto::STRINGS)
      result.value = std::vector<std::string>(proto.strings().begin(), proto.strings().end());
    else if (proto.type() == onnx_file::AttributeProto::FLOAT)
      result.value = 0.0f;
    else if (proto.type() == onnx_file::AttributeProto::INT)
      result.value = int64_t{0};
    else if (proto.type() == onnx_file::AttributeProto::STRING)
      result.value = std::string();
    return result;
  }

  ValueInfo read_value(const onnx_file::ValueInfoProto& proto) {
    ValueInfo info;
    info.name = proto.name();
    if (!proto.type().has_tensor_type()) return info;
    const auto& tensor = proto.type().tensor_type();
    info.type = tensor.elem_type();
    info.has_shape = tensor.has_shape();
    for (const auto& dim : tensor.shape().dim()) {
      if (dim.has_dim_value())
        info.shape.push_back({dim.dim_value(), ""});
      else
        info.shape.push_back({-1, dim.dim_param()});
    }
    // Some exporters write -1 for an unknown extent. Other negative extents are errors.
    for (Dimension& dim : info.shape) {
      if (dim.extent < -1)
        throw_user_error("'" + info.name + "' has the negative extent " +
                         std::to_string(dim.extent));
    }
    return info;
  }

  Function read_function(const onnx_file::FunctionProto& proto) {
    Function function;
    function.name = proto.name();
    function.domain = domain_of(proto.domain());
    function.inputs.assign(proto.input().begin(), proto.input().end());
    function.outputs.assign(proto.output().begin(), proto.output().end());
    Opsets opsets = opsets_;
    for (const auto& set : proto.opset_import()) opsets[domain_of(set.domain())] = set.version();
    for (const auto& node : proto.node()) function.nodes.push_back(read_node(node, opsets));
    // Attributes with defaults are newer than the schema of the build, so they are unknown fields.
    const bool ok = for_each_field(proto.unknown_fields(), [&](int number, auto payload, auto) {
      onnx_file::AttributeProto attribute;
      if (number != kFunctionDefaults || !payload) return;
      if (!attribute.ParseFromArray(payload->data(), static_cast<int>(payload->size())))
        not_a_model();
      function.defaults[attribute.name()] = read_attribute(
          attribute, opsets,
          "attribute '" + attribute.name() + "' of function '" + function.name + "'");
    });
    if (!ok) not_a_model();
    return function;
  }

  std::string path_;
  std::shared_ptr<const MappedFile> file_;
  TensorReader tensors_;
  Opsets opsets_;
};

Model parse_file(const std::shared_ptr<const MappedFile>& file, const std::string& path) {
  try {
    return Parser(path, file).parse();
  } catch (const Error& e) {
    throw Error(e.kind, "'" + path + "': " + e.message, e.where, e.help);
  }
}

}  // namespace

Model read_model(const std::string& path) { return parse_file(MappedFile::open(path), path); }

Model parse_model(const std::string& bytes, const std::string& path) {
  return parse_file(MappedFile::of_bytes(bytes), path);
}

}  // namespace heddle::onnx
