// Imports in a narrower type: numbers of the model that it cannot hold, and operators that mix
// types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heddle/codegen/interpreter.h"
#include "heddle/onnx/import.h"
#include "onnx/model_builder.h"

namespace heddle::testing {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();

NDArray run(const ModelParts& parts, const std::vector<NDArray>& inputs, DataType type) {
  const ModelFolder folder("narrow");
  const OnnxModel model =
      import_onnx(folder.write("m.onnx", model_bytes(parts)), {.precision = type});
  std::vector<TensorValue> known;
  for (size_t i = 0; i < inputs.size(); ++i) known.push_back({model.inputs[i], inputs[i]});
  return interpret(model.outputs, known)[0];
}

// The mask of DeBERTa: where(mask, scores, lowest), then a softmax. A row that is masked completely
// has equal weights, and NaN where the mask is infinite.
TEST(OnnxPrecision, ARowThatIsMaskedCompletelyIsNotNaN) {
  ModelParts p;
  p.inputs = {value_info("scores", {"2", "4"}), value_info("mask", {"2", "4"}, kInt64)};
  p.outputs = {value_info("y", {"2", "4"})};
  p.initializers = {tensor("lowest", {}, std::vector<float>{kLowest}),
                    tensor("zero", {}, std::vector<int64_t>{0})};
  p.nodes = {node("is", "Equal", {"mask", "zero"}, {"hidden"}),
             node("fill", "Where", {"hidden", "lowest", "scores"}, {"masked"}),
             node("weights", "Softmax", {"masked"}, {"y"}, {attribute("axis", int64_t{-1})})};
  const NDArray scores = NDArray::from(std::vector<float>{1, 2, 3, 4, 1, 1, 9, 9}, {2, 4});
  const NDArray mask = NDArray::from(std::vector<int64_t>{0, 0, 0, 0, 1, 1, 0, 0}, {2, 4});
  for (const DataType type : {f32, f16, bf16}) {
    const NDArray y = run(p, {scores, mask}, type);
    for (int i = 0; i < 4; ++i) EXPECT_NEAR(y.get(i), 0.25, 1e-3) << type;
    EXPECT_NEAR(y.get(4), 0.5, 1e-3) << type;
    EXPECT_EQ(y.get(7), 0) << type;
  }
}

// A mask that the model computes, which is too large to be computed at import: (1 - ones) * lowest.
TEST(OnnxPrecision, NumbersThatNodesMakeOfConstantsStayFinite) {
  ModelParts p;
  p.inputs = {value_info("x", {"400", "400"})};
  p.outputs = {value_info("y", {"400", "400"})};
  p.initializers = {tensor("shape", {2}, std::vector<int64_t>{400, 400})};
  const Message lowest = Message()
                             .text(1, "value")
                             .message(5, tensor("", {1}, std::vector<float>{kLowest}))
                             .number(20, 4);
  p.nodes = {node("full", "ConstantOfShape", {"shape"}, {"mask"}, {lowest}),
             node("sub", "Sub", {"x", "x"}, {"nothing"}),
             node("times", "Mul", {"mask", "nothing"}, {"y"})};
  for (const DataType type : {f32, f16, bf16}) {
    const NDArray y = run(p, {NDArray::full({400, 400}, f32, 3)}, type);
    EXPECT_EQ(y.get(1234), 0) << type;
  }
}

TEST(OnnxPrecision, TheValueOfAPadStaysFiniteAndInfinitiesStay) {
  ModelParts p;
  p.inputs = {value_info("x", {"2"})};
  p.outputs = {value_info("y", {"4"})};
  p.initializers = {tensor("pads", {2}, std::vector<int64_t>{1, 1}),
                    tensor("lowest", {}, std::vector<float>{kLowest}),
                    tensor("most", {4}, std::vector<float>{0, INFINITY, -INFINITY, 1})};
  p.nodes = {node("pad", "Pad", {"x", "pads", "lowest"}, {"padded"}),
             node("add", "Add", {"padded", "most"}, {"y"})};
  for (const DataType type : {f16, bf16}) {
    const NDArray y = run(p, {NDArray::full({2}, f32, 3)}, type);
    EXPECT_TRUE(std::isfinite(y.get(0))) << type;
    EXPECT_LT(y.get(0), -60000) << type;
    EXPECT_EQ(y.get(1), INFINITY) << type;
    EXPECT_EQ(y.get(2), -INFINITY) << type;
  }
}

// Exporters let equal parameters share one array, which nodes then read in shapes of their own.
TEST(OnnxPrecision, AnArrayInSeveralShapes) {
  ModelParts p;
  p.inputs = {value_info("x", {"2", "4"})};
  p.outputs = {value_info("y", {"1", "2", "4"})};
  p.initializers = {tensor("scale", {4}, std::vector<float>{1, 2, 3, 4}),
                    tensor("shape", {3}, std::vector<int64_t>{1, 1, 4})};
  p.nodes = {node("view", "Reshape", {"scale", "shape"}, {"wide"}),
             node("first", "Mul", {"x", "wide"}, {"scaled"}),
             node("norm", "LayerNormalization", {"scaled", "scale", "scale"}, {"y"})};
  const NDArray x = NDArray::from(std::vector<float>{1, 1, 1, 1, 4, 3, 2, 1}, {2, 4});
  const NDArray exact = run(p, {x}, f32);
  for (const DataType type : {f16, bf16}) {
    const NDArray y = run(p, {x}, type);
    for (int i = 0; i < 8; ++i) EXPECT_NEAR(y.get(i), exact.get(i), 5e-2) << type;
  }
}

TEST(OnnxPrecision, DynamicQuantizeLinear) {
  ModelParts p;
  p.inputs = {value_info("x", {"5"})};
  p.outputs = {value_info("z", {"5"})};
  p.nodes = {node("q", "DynamicQuantizeLinear", {"x"}, {"y", "scale", "point"}),
             node("d", "DequantizeLinear", {"y", "scale", "point"}, {"z"})};
  const std::vector<float> values = {-1, 0, 0.5F, 2, 4};
  for (const DataType type : {f32, f16, bf16}) {
    const NDArray z = run(p, {NDArray::from(values, {5})}, type);
    for (int i = 0; i < 5; ++i)
      EXPECT_NEAR(z.get(i), values[static_cast<size_t>(i)], 0.5 * 5 / 255 + 0.02) << type << i;
  }
}

}  // namespace
}  // namespace heddle::testing
