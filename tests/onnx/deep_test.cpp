// Chains of nodes that are longer than a stack: imports, and networks that run.
#include <gtest/gtest.h>

#include "heddle/codegen/interpreter.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "onnx/model_builder.h"

namespace heddle::testing {
namespace {

// x -> relu -> +1 -> relu -> ..., with a product after every `per_product` nodes.
OnnxModel chain(int nodes, int per_product) {
  ModelParts p;
  p.inputs = {value_info("x", {"2", "8"})};
  std::vector<float> identity(64, 0);
  for (size_t i = 0; i < 8; ++i) identity[9 * i] = 1;
  p.initializers = {tensor("one", {}, std::vector<float>{1}), tensor("w", {8, 8}, identity)};
  std::string last = "x";
  for (int n = 0; n < nodes; ++n) {
    const std::string next = "t" + std::to_string(n);
    if (n % per_product == per_product - 1)
      p.nodes.push_back(node("", "MatMul", {last, "w"}, {next}));
    else if (n % 2 == 0)
      p.nodes.push_back(node("", "Relu", {last}, {next}));
    else
      p.nodes.push_back(node("", "Add", {last, "one"}, {next}));
    last = next;
  }
  p.outputs = {value_info(last, {"2", "8"})};
  const ModelFolder folder("deep");
  return import_onnx(folder.write("m.onnx", model_bytes(p)));
}

TEST(OnnxDeep, AHundredThousandNodesAreImported) {
  for (const int per_product : {4, 1000000}) {
    const OnnxModel model = chain(100000, per_product);
    EXPECT_EQ(model.outputs[0].extents(), (Extents{2, 8}));
  }
}

TEST(OnnxDeep, NetworksOfTenThousandNodesRun) {
  for (const int per_product : {4, 1000000}) {
    const OnnxModel model = chain(10000, per_product);
    const NDArray x = NDArray::full({2, 8}, f32, -3), y = NDArray::zeros({2, 8}, f32);
    const NDArray want = interpret(model.outputs, {{model.inputs[0], x}})[0];
    Network(model.outputs).build(model.args()).call(model.arrays({x}, {y}));
    EXPECT_EQ(y.get(5), want.get(5));
    EXPECT_EQ(y.get(5), per_product == 4 ? 2500 : 5000);
  }
}

}  // namespace
}  // namespace heddle::testing
