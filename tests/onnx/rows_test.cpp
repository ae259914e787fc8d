// Tensors whose number of rows the inputs decide, and models that ask for what nobody can have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "heddle/codegen/interpreter.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/support/error.h"
#include "onnx/imported.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<double> elements(const NDArray& array) {
  std::vector<double> values;
  for (int64_t i = 0; i < array.size(); ++i) values.push_back(array.get(i));
  return values;
}

/// at = NonZero(x); y = -Gather(w, Squeeze(at))
ModelParts model_of_rows() {
  ModelParts p;
  p.inputs = {value_info("x", {"4"})};
  p.initializers = {tensor("w", {4, 2}, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}),
                    tensor("first", {1}, std::vector<int64_t>{0})};
  p.nodes = {node("find", "NonZero", {"x"}, {"at"}), node("", "Squeeze", {"at", "first"}, {"row"}),
             node("", "Gather", {"w", "row"}, {"g"}), node("", "Neg", {"g"}, {"y"})};
  p.outputs = {value_info("y", {}), value_info("at", {}, kInt64)};
  return p;
}

TEST(OnnxRows, OutputsOfAnOpenLengthHaveACount) {
  const OnnxModel model = imported(model_of_rows());
  EXPECT_THAT(model.output_names, ElementsAre("y", "at", "y:count", "at:count"));
  ASSERT_EQ(model.open_outputs.size(), 2U);
  EXPECT_EQ(model.open_outputs[0].output, 0);
  EXPECT_EQ(model.open_outputs[0].axis, 0);
  EXPECT_EQ(model.open_outputs[0].count, 2);
  EXPECT_EQ(model.open_outputs[1].axis, 1);
  const NDArray x = NDArray::from<float>({0, 3, 0, 1}, {4});
  std::vector<NDArray> made;
  for (const Tensor& t : model.outputs) made.push_back(NDArray::full(t.extents(), t.dtype(), 77));
  Network(model.outputs).build(model.args()).call(model.arrays({x}, made));
  EXPECT_EQ(made[2].get(0), 2);
  const std::vector<double> y = elements(made[0]), at = elements(made[1]);
  EXPECT_THAT(std::vector<double>(y.begin(), y.begin() + 4), ElementsAre(-3, -4, -7, -8));
  EXPECT_THAT(at, ElementsAre(1, 3, -1, -1));
}

// A sum would have the rows that are no results.
TEST(OnnxRows, OperatorsThatWouldSeeOtherRowsAreRefused) {
  ModelParts p = model_of_rows();
  p.nodes.push_back(node("total", "ReduceSum", {"y"}, {"z"}));
  p.outputs = {value_info("z", {})};
  EXPECT_THAT(import_error(p),
              AllOf(HasSubstr("node 'total' (ReduceSum)"),
                    HasSubstr("dimension 0 of its input 'y' depends on the inputs")));
  p.nodes.back() = node("extents", "Shape", {"y"}, {"z"});
  EXPECT_THAT(import_error(p), HasSubstr("node 'extents' (Shape)"));
  // Two lengths of their own are not one.
  p.inputs.push_back(value_info("x2", {"4"}));
  p.nodes.back() = node("", "NonZero", {"x2"}, {"at2"});
  p.nodes.push_back(node("both", "Add", {"at", "at2"}, {"z"}));
  EXPECT_THAT(import_error(p), HasSubstr("node 'both' (Add)"));
  // The dimension of the rows cannot be gathered from.
  p.nodes.back() = node("pick", "Gather", {"y", "first"}, {"z"});
  EXPECT_THAT(import_error(p), HasSubstr("node 'pick' (Gather)"));
}

TEST(OnnxRows, KnownDataHaveAKnownLength) {
  ModelParts p = model_of_rows();
  p.initializers.push_back(tensor("k", {4}, std::vector<float>{0, 0, 2, 0}));
  p.nodes[0] = node("find", "NonZero", {"k"}, {"at"});
  p.nodes.push_back(node("", "Mul", {"y", "x2"}, {"z"}));
  p.inputs = {value_info("x2", {"1"})};
  p.outputs = {value_info("z", {})};
  const OnnxModel model = imported(p);
  EXPECT_TRUE(model.open_outputs.empty());
  EXPECT_EQ(model.outputs[0].extents(), (Extents{1, 2}));
}

/// A node of `op` on an image of 4 x 4, with initialisers of integers.
ModelParts one_node(const std::string& op, const std::vector<std::string>& inputs,
                    const std::vector<Message>& attributes,
                    const std::vector<std::vector<int64_t>>& numbers = {}) {
  ModelParts p;
  p.inputs = {value_info("x", {"1", "2", "4", "4"})};
  for (size_t i = 0; i < numbers.size(); ++i)
    p.initializers.push_back(
        tensor("n" + std::to_string(i), {static_cast<int64_t>(numbers[i].size())}, numbers[i]));
  p.nodes = {node("bad", op, inputs, {"y"}, attributes)};
  p.outputs = {value_info("y", {})};
  return p;
}

TEST(OnnxRows, HostileNumbersAreErrorsOfTheirNodes) {
  constexpr int64_t kHuge = int64_t{1} << 62;
  const std::vector<ModelParts> models = {
      one_node("Col2Im", {"x", "n0", "n1"}, {}, {{-4, 4}, {2, 2}}),
      one_node("Col2Im", {"x", "n0", "n1"}, {}, {{kHuge, kHuge}, {kHuge, 2}}),
      one_node("DFT", {"x", "n0"}, {}, {{-3}}),
      one_node("DFT", {"x", "n0"}, {}, {{kHuge}}),
      one_node("STFT", {"x", "n0"}, {}, {{0}}),
      one_node("HannWindow", {"n0"}, {}, {{-1}}),
      one_node("HannWindow", {"n0"}, {}, {{kHuge}}),
      one_node("MelWeightMatrix", {"n0", "n1", "n1", "n1", "n1"}, {}, {{kHuge}, {1}}),
      one_node("AffineGrid", {"x", "n0"}, {}, {{-1, 1, 2, 2}}),
      one_node("AffineGrid", {"x", "n0"}, {}, {{}}),
      one_node("GridSample", {"x", "x"}, {}),
      one_node("RoiAlign", {"x", "x", "x"}, {attribute("output_height", kHuge)}),
      one_node("MaxRoiPool", {"x", "x"}, {attribute("pooled_shape", std::vector<int64_t>{-1, 2})}),
      one_node("DeformConv", {"x", "x", "x"}, {attribute("group", int64_t{0})}),
      one_node("MaxUnpool", {"x", "n0"},
               {attribute("kernel_shape", std::vector<int64_t>{kHuge, 2})}, {{1}}),
      one_node("NonMaxSuppression", {"x", "x", "n0"}, {}, {{kHuge}}),
      one_node("RandomUniform", {}, {attribute("shape", std::vector<int64_t>{kHuge, kHuge})}),
      one_node("RandomNormal", {}, {attribute("shape", std::vector<int64_t>{-2})}),
      one_node("Multinomial", {"x"}, {attribute("sample_size", int64_t{-1})}),
      one_node("TfIdfVectorizer", {"n0"}, {attribute("ngram_counts", std::vector<int64_t>{-1})},
               {{1}}),
      one_node("SoftmaxCrossEntropyLoss", {"x", "n0"}, {}, {{1}}),
      one_node("Resize", {"x", "", "", "n0"}, {}, {{1, 2, kHuge, -1}}),
      one_node("Resize", {"x", "", "", "n0"}, {attribute("axes", std::vector<int64_t>{7})}, {{4}}),
      one_node("Unique", {"x"}, {attribute("axis", int64_t{9})}),
      one_node("Compress", {"x", "n0"}, {attribute("axis", int64_t{1})}, {{1, 1, 1, 1}}),
      one_node("BitCast", {"x"}, {attribute("to", int64_t{7})}),
  };
  for (size_t i = 0; i < models.size(); ++i) {
    const std::string message = import_error(models[i]);
    EXPECT_THAT(message, HasSubstr("node 'bad'")) << "model " << i;
  }
}

TEST(OnnxRows, UniqueOfKnownNansIsOneElement) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  ModelParts p;
  p.initializers = {tensor("x", {5}, std::vector<float>{nan, 1, nan, 0, 1})};
  p.nodes = {node("u", "Unique", {"x"}, {"", "", "inverse", ""})};
  p.outputs = {value_info("inverse", {"5"}, kInt64)};
  const NDArray made = interpret(imported(p).outputs, {})[0];
  EXPECT_THAT(std::vector<int64_t>(made.data<int64_t>(), made.data<int64_t>() + 5),
              ElementsAre(2, 1, 2, 0, 1));
}

TEST(OnnxRows, APastWithUnknownLengthIsAnError) {
  ModelParts p;
  p.inputs = {value_info("q", {"1", "1", "32"}),
              value_info("k", {"1", "1", "16"}),
              value_info("v", {"1", "1", "16"}),
              value_info("pk", {"1", "1", "4", "16"}),
              value_info("pv", {"1", "1", "4", "16"}),
              value_info("last", {"1"}, 6),
              value_info("total", {}, 6)};
  p.nodes = {node("g", "GroupQueryAttention", {"q", "k", "v", "pk", "pv", "last", "total"}, {"y"},
                  {attribute("num_heads", int64_t{2}), attribute("kv_num_heads", int64_t{1})},
                  "com.microsoft")};
  p.outputs = {value_info("y", {})};
  EXPECT_THAT(import_error(p), HasSubstr("is not known at import"));
}

}  // namespace
}  // namespace heddle::testing
