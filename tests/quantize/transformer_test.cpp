// An encoder of a transformer as exporters write it, quantised by us and as a file that came with its
// QuantizeLinear and DequantizeLinear (QDQ): what its kernels compute against the interpreter and f32.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "heddle/codegen/interpreter.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/quantize/precision.h"
#include "heddle/quantize/quantize.h"
#include "onnx/model_builder.h"

namespace heddle::testing {
namespace {

constexpr int64_t kBatch = 2, kSequence = 12, kTokens = 50, kWidth = 32, kHeads = 4, kInner = 64,
                  kLayers = 2, kProducts = 6 * kLayers;
constexpr int kInt8 = 3, kUint8 = 2;

/// Writes the file. `bytes`: products have QDQ in front of both operands.
class Encoder {
 public:
  explicit Encoder(bool bytes) : bytes_(bytes) {}

  ModelParts run() {
    p_.inputs = {value_info("ids", {"batch", "12"}, kInt64),
                 value_info("mask", {"batch", "1", "1", "12"})};
    p_.outputs = {value_info("y", {"batch", "12", "32"})};
    weights("words", {kTokens, kWidth}, 1);
    weights("places", {kSequence, kWidth}, 1);
    ints("heads", {0, 0, kHeads, kWidth / kHeads});
    ints("joined", {0, 0, kWidth});
    number("scale", 1 / std::sqrt(static_cast<float>(kWidth) / kHeads));
    number("root", std::sqrt(2.F));
    number("one", 1);
    number("half", 0.5F);
    number("step", 8.F / 255);
    p_.initializers.push_back(tensor_header("point", kUint8, {}).text(9, std::string(1, '\x80')));
    add("Gather", {"words", "ids"}, "found");
    add("Add", {"found", "places"}, "sum");
    std::string x = norm("sum", "first");
    for (int64_t l = 0; l < kLayers; ++l) x = layer(x, "l" + std::to_string(l));
    add("Identity", {x}, "y");
    return std::move(p_);
  }

 private:
  void add(const std::string& op, const std::vector<std::string>& in, const std::string& out,
           const std::vector<Message>& attributes = {}) {
    p_.nodes.push_back(node(out + ".node", op, in, {out}, attributes));
  }
  void weights(const std::string& name, const std::vector<int64_t>& shape, double most) {
    const NDArray a = NDArray::random(shape, f32, ++seed_, -most, most);
    p_.initializers.push_back(
        tensor(name, shape, std::vector<float>(a.data<float>(), a.data<float>() + a.size())));
  }
  void ints(const std::string& name, const std::vector<int64_t>& values) {
    p_.initializers.push_back(tensor(name, {std::ssize(values)}, values));
  }
  void number(const std::string& name, float value) {
    p_.initializers.push_back(tensor(name, {}, std::vector<float>{value}));
  }

  std::string norm(const std::string& x, const std::string& name) {
    weights(name + ".gain", {kWidth}, 1);
    weights(name + ".shift", {kWidth}, 0.2);
    add("LayerNormalization", {x, name + ".gain", name + ".shift"}, name,
        {attribute("axis", int64_t{-1}), attribute("epsilon", 1e-5F)});
    return name;
  }

  /// The weights of a product, of f32 or of bytes with a scale for each column.
  std::string factor(const std::string& name, int64_t rows, int64_t columns) {
    const double most = 1 / std::sqrt(static_cast<double>(rows));
    if (!bytes_) {
      weights(name + ".w", {rows, columns}, most);
      return name + ".w";
    }
    const NDArray q = NDArray::random({rows, columns}, i8, ++seed_, -127, 127);
    const auto* data = q.data<int8_t>();
    p_.initializers.push_back(tensor_header(name + ".q", kInt8, {rows, columns})
                                  .text(9, raw(std::vector<int8_t>(data, data + q.size()))));
    std::vector<float> scales;
    for (int64_t c = 0; c < columns; ++c)
      scales.push_back(static_cast<float>(most / 127 * (1 + 0.1 * static_cast<double>(c % 3))));
    p_.initializers.push_back(tensor(name + ".s", {columns}, scales));
    add("DequantizeLinear", {name + ".q", name + ".s"}, name + ".w",
        {attribute("axis", int64_t{1})});
    return name + ".w";
  }

  std::string dense(const std::string& x, const std::string& name, int64_t rows, int64_t columns) {
    const std::string w = factor(name, rows, columns);
    std::string from = x;
    if (bytes_) {
      add("QuantizeLinear", {x, "step", "point"}, name + ".xq");
      add("DequantizeLinear", {name + ".xq", "step", "point"}, name + ".x");
      from = name + ".x";
    }
    weights(name + ".b", {columns}, 0.1);
    add("MatMul", {from, w}, name + ".product");
    add("Add", {name + ".product", name + ".b"}, name);
    return name;
  }

  std::string layer(const std::string& x, const std::string& n) {
    for (const std::string part : {".q", ".k", ".v"}) {
      const std::string flat = dense(x, n + part, kWidth, kWidth);
      add("Reshape", {flat, "heads"}, flat + ".split");
      add("Transpose", {flat + ".split"}, flat + ".heads",
          {attribute("perm", part == ".k" ? std::vector<int64_t>{0, 2, 3, 1}
                                          : std::vector<int64_t>{0, 2, 1, 3})});
    }
    add("MatMul", {n + ".q.heads", n + ".k.heads"}, n + ".scores");
    add("Mul", {n + ".scores", "scale"}, n + ".scaled");
    add("Add", {n + ".scaled", "mask"}, n + ".masked");
    add("Softmax", {n + ".masked"}, n + ".shares", {attribute("axis", int64_t{-1})});
    add("MatMul", {n + ".shares", n + ".v.heads"}, n + ".mixed");
    add("Transpose", {n + ".mixed"}, n + ".rows",
        {attribute("perm", std::vector<int64_t>{0, 2, 1, 3})});
    add("Reshape", {n + ".rows", "joined"}, n + ".flat");
    add("Add", {dense(n + ".flat", n + ".o", kWidth, kWidth), x}, n + ".attended");
    const std::string h = norm(n + ".attended", n + ".norm"),
                      inner = dense(h, n + ".up", kWidth, kInner);
    add("Div", {inner, "root"}, n + ".over");
    add("Erf", {n + ".over"}, n + ".erf");
    add("Add", {n + ".erf", "one"}, n + ".more");
    add("Mul", {inner, n + ".more"}, n + ".double");
    add("Mul", {n + ".double", "half"}, n + ".gelu");
    add("Add", {dense(n + ".gelu", n + ".down", kInner, kWidth), h}, n + ".sum");
    return norm(n + ".sum", n + ".out");
  }

  ModelParts p_;
  const bool bytes_;
  uint64_t seed_ = 10;
};

/// Random tokens, and a mask that hides some of the last ones.
std::map<std::string, NDArray> samples(int64_t count, uint64_t seed) {
  NDArray mask = NDArray::zeros({count, 1, 1, kSequence}, f32);
  for (int64_t b = 0; b < count; ++b) {
    for (int64_t t = kSequence - b % 4; t < kSequence; ++t) mask.set(b * kSequence + t, -1e4);
  }
  return {{"ids", NDArray::random({count, kSequence}, i64, seed, 0, kTokens - 1)}, {"mask", mask}};
}

struct Results {
  NDArray kernels, interpreted;
  int64_t integer_products = 0;
};

Results results(const std::string& path, const std::map<std::string, NDArray>& inputs) {
  const OnnxModel model = import_onnx(path, {.dims = {{"batch", kBatch}}});
  std::vector<NDArray> given;
  std::vector<TensorValue> values;
  for (size_t i = 0; i < model.inputs.size(); ++i) {
    given.push_back(inputs.at(model.input_names[i]));
    values.push_back({model.inputs[i], given.back()});
  }
  Results r{NDArray::zeros({kBatch, kSequence, kWidth}, f32), interpret(model.outputs, values)[0]};
  const Network single(model.outputs, Target::host(), {}, parse_passes("-join_products"));
  for (const NetworkNode& n : single.nodes()) {
    const ComputeDag& dag = single.tasks()[static_cast<size_t>(n.task)].tmpl.dag().direct();
    for (int s = 0; s < dag.size(); ++s) {
      const Operation& op = dag.stage(s);
      if (op.is_reduction() && !dag.info(s).precomputable && op.output(0).dtype() == i32)
        ++r.integer_products;
    }
  }
  Network(model.outputs).build(model.args()).call(model.arrays(given, {r.kernels}));
  return r;
}

// Sums in another order round some bytes to their neighbours, one step of 1/255 of a range.
constexpr double kOfNeighbours = 0.02;

class QuantizedEncoder : public ::testing::TestWithParam<QuantizeOptions> {
 protected:
  const ModelFolder folder_{"encoder"};
  const std::map<std::string, NDArray> given_ = samples(kBatch, 77);
};

TEST_P(QuantizedEncoder, ComputesWhatTheFileSaysAndAboutWhatF32Does) {
  const std::string path = folder_.write("model.onnx", model_bytes(Encoder(false).run())),
                    written = (folder_.path() / "bytes.onnx").string();
  QuantizeOptions options = GetParam();
  options.batch = kBatch;
  const QuantizeReport report = quantize_onnx(path, samples(32, 5), written, options);
  const Results f32_results = results(path, given_), bytes = results(written, given_);
  EXPECT_EQ(f32_results.integer_products, 0);
  EXPECT_EQ(bytes.integer_products, kProducts) << report.to_string();
  EXPECT_LE(output_error(f32_results.kernels, f32_results.interpreted), 1e-5);
  EXPECT_LE(output_error(bytes.kernels, bytes.interpreted), kOfNeighbours);
  EXPECT_LE(output_error(bytes.kernels, f32_results.kernels), 0.1) << report.to_string();
  EXPECT_GT(output_error(bytes.kernels, f32_results.kernels), 0) << "nothing is of bytes";
}

INSTANTIATE_TEST_SUITE_P(Options, QuantizedEncoder,
                         ::testing::Values(QuantizeOptions{}, QuantizeOptions{.activations = i8},
                                           QuantizeOptions{.per_channel = false}));

TEST(EncoderOfBytes, ComputesWhatTheFileSays) {
  const ModelFolder folder("encoder_qdq");
  const Results r =
      results(folder.write("qdq.onnx", model_bytes(Encoder(true).run())), samples(kBatch, 77));
  EXPECT_EQ(r.integer_products, kProducts);
  EXPECT_LE(output_error(r.kernels, r.interpreted), kOfNeighbours);
}

}  // namespace
}  // namespace heddle::testing
