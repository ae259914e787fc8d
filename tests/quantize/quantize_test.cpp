// Models in, quantised models out: what is in the file, and what is refused.
#include "heddle/quantize/quantize.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/codegen/interpreter.h"
#include "heddle/onnx/import.h"
#include "onnx/file/graph.h"
#include "onnx/model_builder.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using testing::attribute;
using ::testing::HasSubstr;
using testing::model_bytes;
using testing::ModelFolder;
using testing::ModelParts;
using testing::node;
using testing::tensor;
using testing::value_info;

std::vector<float> floats(const NDArray& array) {
  return {array.data<float>(), array.data<float>() + array.size()};
}

/// Two convolutions with a residual sum, a pool and a product.
ModelParts small_network() {
  ModelParts parts;
  parts.inputs = {value_info("x", {"batch", "3", "6", "6"})};
  parts.outputs = {value_info("y", {"batch", "5"})};
  parts.initializers = {tensor("w1", {4, 3, 3, 3}, floats(NDArray::random({4, 3, 3, 3}, f32, 1))),
                        tensor("b1", {4}, floats(NDArray::random({4}, f32, 2))),
                        tensor("w2", {4, 4, 1, 1}, floats(NDArray::random({4, 4, 1, 1}, f32, 3))),
                        tensor("w3", {4, 5}, floats(NDArray::random({4, 5}, f32, 4)))};
  const onnx::Message pads = attribute("pads", std::vector<int64_t>{1, 1, 1, 1});
  parts.nodes = {node("c1", "Conv", {"x", "w1", "b1"}, {"a"}, {pads}),
                 node("r1", "Relu", {"a"}, {"r"}),
                 node("c2", "Conv", {"r", "w2"}, {"c"}),
                 node("s", "Add", {"c", "r"}, {"s"}),
                 node("p", "GlobalAveragePool", {"s"}, {"p"}),
                 node("f", "Flatten", {"p"}, {"f"}),
                 node("m", "MatMul", {"f", "w3"}, {"y"})};
  return parts;
}

class Quantize : public ::testing::Test {
 protected:
  QuantizeReport quantize(const ModelParts& parts, const std::map<std::string, NDArray>& samples,
                          const QuantizeOptions& options = {}) const {
    const std::string model = folder_.write("model.onnx", model_bytes(parts));
    return quantize_onnx(model, samples, output(), options);
  }
  std::string output() const { return (folder_.path() / "quantised.onnx").string(); }

  std::string error_of(const ModelParts& parts, const std::map<std::string, NDArray>& samples,
                       const QuantizeOptions& options = {}) const {
    try {
      quantize(parts, samples, options);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User) << e.message;
      return e.message + " " + e.help;
    }
    return "no error";
  }

  ModelFolder folder_{"quantize"};
};

const std::map<std::string, NDArray> kSamples = {{"x", NDArray::random({7, 3, 6, 6}, f32, 5)}};

TEST_F(Quantize, FilesWhoseInitializersAreInputsGetANewerVersion) {
  ModelParts parts = small_network();
  parts.inputs.push_back(value_info("w1", {"4", "3", "3", "3"}));
  std::string bytes = model_bytes(parts);
  ASSERT_EQ(bytes.substr(0, 2), "\x08\x09");
  bytes[1] = 3;
  quantize_onnx(folder_.write("model.onnx", bytes), kSamples, output(), {.batch = 7});
  EXPECT_EQ(read_file(output()).substr(0, 2), "\x08\x04");
}

TEST_F(Quantize, InputsThatNothingReadsNeedNoSamples) {
  ModelParts parts = small_network();
  parts.inputs.push_back(value_info("spare", {"batch", "2"}));
  std::map<std::string, NDArray> samples = kSamples;
  EXPECT_EQ(quantize(parts, samples, {.batch = 7}).outputs.size(), 1U);
  samples.emplace("spare", NDArray::zeros({7, 2}, f32));
  EXPECT_EQ(quantize(parts, samples, {.batch = 7}).outputs.size(), 1U);
}

// The interpreter computes the file as it is declared, in f32; the report is of integer kernels.
TEST_F(Quantize, TheReportIsOfWhatTheFileComputes) {
  const QuantizeReport report = quantize(small_network(), kSamples, {.batch = 7});
  const OnnxModel model = import_onnx(output(), {.dims = {{"batch", 7}}});
  const NDArray q = interpret(model.outputs, {{model.inputs[0], kSamples.at("x")}})[0];
  const OnnxModel real =
      import_onnx((folder_.path() / "model.onnx").string(), {.dims = {{"batch", 7}}});
  const NDArray f = interpret(real.outputs, {{real.inputs[0], kSamples.at("x")}})[0];
  ASSERT_EQ(report.outputs.size(), 1U);
  EXPECT_NEAR(report.outputs[0].largest, max_abs_diff(q, f),
              0.02 * report.outputs[0].largest_of_f32);
  EXPECT_GT(report.outputs[0].snr, 25);
  std::vector<std::string> names;
  for (const QuantizedTensor& t : report.tensors) names.push_back(t.name);
  EXPECT_THAT(names, ::testing::ElementsAre("x", "r", "c", "s", "p", "f"));
}

TEST_F(Quantize, TheFileHasIntegersAndNothingThatNobodyReads) {
  quantize(small_network(), kSamples);
  const onnx::Model model = onnx::read_model(output());
  std::set<std::string> read;
  for (const onnx::Node& n : model.graph.nodes) read.insert(n.inputs.begin(), n.inputs.end());
  for (const auto& [name, array] : model.graph.initializers) {
    EXPECT_TRUE(read.count(name)) << name;
    EXPECT_TRUE(array.size() <= 5 || array.dtype() == i8) << name;
  }
  EXPECT_EQ(model.graph.initializers.at("w1_quantized").shape(), (Extents{4, 3, 3, 3}));
  EXPECT_EQ(model.graph.initializers.at("b1_quantized").dtype(), i32);
}

// What the tool does not know stays in the file as it is.
TEST_F(Quantize, KeepsTheRestOfTheFile) {
  onnx::Message more;
  more.message(14, onnx::Message().text(1, "author").text(2, "a person"));
  const std::string path = folder_.write("model.onnx", model_bytes(small_network()) + more.bytes());
  quantize_onnx(path, kSamples, output());
  EXPECT_THAT(read_file(output()), HasSubstr(more.bytes()));
}

TEST_F(Quantize, WeightsBesideTheModelBecomePartOfIt) {
  ModelParts parts = small_network();
  const std::vector<float> w = floats(NDArray::random({4, 5}, f32, 9));
  folder_.write("w.bin", onnx::Message().bytes() + testing::raw(w));
  parts.initializers[3] = testing::external_tensor("w3", {4, 5}, "w.bin", "0", "80");
  parts.initializers.push_back(testing::external_tensor("b", {5}, "w.bin", "0", "20"));
  parts.nodes.back() = node("m", "MatMul", {"f", "w3"}, {"z"});
  parts.nodes.push_back(node("e", "Mul", {"z", "b"}, {"y"}));
  quantize(parts, kSamples);
  std::filesystem::remove(folder_.path() / "w.bin");
  const onnx::Model model = onnx::read_model(output());
  for (int64_t i = 0; i < 5; ++i)
    EXPECT_EQ(model.graph.initializers.at("b").get(i), w[static_cast<size_t>(i)]);
}

TEST_F(Quantize, NamesThatAreTakenAreLeftAlone) {
  ModelParts parts = small_network();
  parts.nodes[1] = node("r1", "Relu", {"x_quantized"}, {"r"});
  parts.nodes[0] = node("c1", "Conv", {"x", "w1", "b1"}, {"x_quantized"},
                        {attribute("pads", std::vector<int64_t>{1, 1, 1, 1})});
  EXPECT_GT(quantize(parts, kSamples).outputs[0].snr, 25);
}

TEST_F(Quantize, RefusesSamplesThatDoNotFit) {
  const ModelParts parts = small_network();
  EXPECT_THAT(error_of(parts, {}), HasSubstr("no samples of input 'x'"));
  EXPECT_THAT(error_of(parts, {{"x", kSamples.at("x")}, {"z", kSamples.at("x")}}),
              HasSubstr("no input 'z'"));
  EXPECT_THAT(error_of(parts, {{"x", NDArray::zeros({2, 3, 6, 6}, f64)}}), HasSubstr("are f64"));
  EXPECT_THAT(error_of(parts, {{"x", NDArray::zeros({2, 3, 6, 5}, f32)}}),
              HasSubstr("dimension 3"));
  EXPECT_THAT(error_of(parts, {{"x", NDArray::zeros({3, 6, 6}, f32)}}),
              HasSubstr("have 3 dimensions"));
  EXPECT_THAT(error_of(parts, {{"x", NDArray::zeros({0, 3, 6, 6}, f32)}}), HasSubstr("are 0"));
  EXPECT_THAT(error_of(parts, {{"x", NDArray::full({2, 3, 6, 6}, f32, NAN)}}),
              HasSubstr("not finite"));
}

TEST_F(Quantize, RefusesModelsThatItCannotQuantise) {
  ModelParts parts = small_network();
  parts.opset = 12;
  EXPECT_THAT(error_of(parts, kSamples), HasSubstr("operator set is 12"));
  EXPECT_EQ(error_of(parts, kSamples, {.per_channel = false}), "no error");
  parts = small_network();
  EXPECT_THAT(error_of(parts, kSamples, {.keep = {"c1", "c2", "m"}}), HasSubstr("no product"));
  EXPECT_THAT(error_of(parts, kSamples, {.keep = {"c3"}}), HasSubstr("did you mean"));
  EXPECT_THAT(error_of(parts, kSamples, {.percentile = 20}), HasSubstr("percentile"));
  EXPECT_THAT(error_of(parts, kSamples, {.activations = f32}), HasSubstr("u8 or i8"));
}

}  // namespace
}  // namespace heddle
