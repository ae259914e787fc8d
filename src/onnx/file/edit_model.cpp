#include "onnx/file/edit_model.h"

#include <algorithm>
#include <climits>

#include "heddle/support/error.h"
#include "onnx/file/wire.h"

namespace heddle::onnx {
namespace {

// Field numbers of the messages of an ONNX file.
constexpr int kModelIrVersion = 1, kModelGraph = 7;
constexpr int kGraphNode = 1, kGraphInitializer = 5, kGraphInput = 11;
constexpr int kNodeInput = 1, kNodeOutput = 2, kNodeName = 3, kNodeOp = 4, kNodeAttribute = 5;
constexpr int kAttributeName = 1, kAttributeInteger = 3, kAttributeType = 20;
constexpr int kTensorDims = 1, kTensorType = 2, kTensorName = 8, kTensorRaw = 9,
              kTensorExternal = 13, kTensorLocation = 14;
constexpr int kValueName = 1;
constexpr int64_t kVersionOfFreeInitializers = 4;  // in older files they are inputs, too
constexpr int kTypeOfIntegers = 2;                 // AttributeProto::INT

void visit(std::string_view message, const FieldVisitor& field) {
  HEDDLE_ICHECK(for_each_field(message, field), "a model that was read is no message");
}

std::string name_in(std::string_view message, int field) {
  std::string name;
  visit(message, [&](int number, auto payload, auto) {
    if (number == field && payload) name = *payload;
  });
  return name;
}

int64_t file_type(DataType type) {
  // The types that an edit adds.
  if (type == f32) return 1;
  if (type == u8) return 2;
  if (type == i8) return 3;
  if (type == i32) return 6;
  throw_internal_error("no initialiser of type " + to_string(type) + " is added to a model");
}

std::string_view elements_of(const NDArray& array) {
  return {static_cast<const char*>(array.data()), static_cast<size_t>(array.bytes())};
}

Message new_tensor(const std::string& name, const NDArray& array) {
  Message m;
  for (const int64_t extent : array.shape()) m.number(kTensorDims, extent);
  return m.number(kTensorType, file_type(array.dtype()))
      .text(kTensorName, name)
      .text(kTensorRaw, elements_of(array));
}

Message new_node(const NewNode& node) {
  Message m;
  for (const std::string& name : node.inputs) m.text(kNodeInput, name);
  for (const std::string& name : node.outputs) m.text(kNodeOutput, name);
  m.text(kNodeName, node.name).text(kNodeOp, node.op);
  for (const auto& [name, value] : node.attributes)
    m.message(kNodeAttribute, Message()
                                  .text(kAttributeName, name)
                                  .number(kAttributeInteger, value)
                                  .number(kAttributeType, kTypeOfIntegers));
  return m;
}

class Editor {
 public:
  Editor(const Model& model, const ModelEdit& edit) : model_(model), edit_(edit) {}

  std::string run(std::string_view bytes) {
    Message out;
    visit(bytes, [&](int number, auto payload, auto whole) {
      if (number == kModelGraph && payload)
        out.message(kModelGraph, graph(*payload));
      else if (number == kModelIrVersion)
        out.number(kModelIrVersion, std::max(model_.ir_version, kVersionOfFreeInitializers));
      else
        out.whole(whole);
    });
    if (out.bytes().size() > INT_MAX)
      throw_user_error("the model would have " + std::to_string(out.bytes().size()) +
                           " bytes with its weights in it, and no ONNX file has more than 2 GiB",
                       {}, "quantise it in parts");
    return out.bytes();
  }

 private:
  Message graph(std::string_view bytes) {
    Message out;
    add(edit_.first, out);
    size_t nodes = 0;
    visit(bytes, [&](int number, auto payload, auto whole) {
      if (number == kGraphNode && payload) {
        out.message(kGraphNode, node(*payload, nodes));
        const auto after = edit_.after.find(nodes++);
        if (after != edit_.after.end()) add(after->second, out);
      } else if (number == kGraphInitializer && payload) {
        initializer(*payload, whole, out);
      } else if (number != kGraphInput || !payload ||
                 !edit_.dropped.count(name_in(*payload, kValueName))) {
        out.whole(whole);
      }
    });
    for (const auto& [name, array] : edit_.initializers)
      out.message(kGraphInitializer, new_tensor(name, array));
    return out;
  }

  static void add(const std::vector<NewNode>& nodes, Message& graph) {
    for (const NewNode& node : nodes) graph.message(kGraphNode, new_node(node));
  }

  Message node(std::string_view bytes, size_t position) const {
    Message out;
    size_t inputs = 0;
    visit(bytes, [&](int number, auto payload, auto whole) {
      const auto name = number == kNodeInput && payload ? edit_.inputs.find({position, inputs++})
                                                        : edit_.inputs.end();
      if (name != edit_.inputs.end())
        out.text(kNodeInput, name->second);
      else
        out.whole(whole);
    });
    return out;
  }

  void initializer(std::string_view bytes, std::string_view whole, Message& graph) const {
    const std::string name = name_in(bytes, kTensorName);
    if (edit_.dropped.count(name)) return;
    Message here;  // without a place in another file
    bool external = false;
    visit(bytes, [&](int number, auto, auto field) {
      external |= number == kTensorExternal;
      if (number != kTensorExternal && number != kTensorLocation) here.whole(field);
    });
    if (external)
      graph.message(kGraphInitializer,
                    here.text(kTensorRaw, elements_of(model_.graph.initializers.at(name))));
    else
      graph.whole(whole);
  }

  const Model& model_;
  const ModelEdit& edit_;
};

}  // namespace

std::string edited_model(std::string_view bytes, const Model& model, const ModelEdit& edit) {
  return Editor(model, edit).run(bytes);
}

}  // namespace heddle::onnx
