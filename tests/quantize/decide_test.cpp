// Which nodes of small models are quantised, and which tensors are bytes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "onnx/model_builder.h"
#include "quantize/decide.h"

namespace heddle::quantize {
namespace {

using heddle::testing::model_bytes;
using heddle::testing::ModelParts;
using heddle::testing::node;
using heddle::testing::value_info;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

const std::vector<float> kWeights(4, 1);

onnx::Model model_of(std::vector<onnx::Message> nodes, const std::string& output = "y") {
  ModelParts parts;
  parts.nodes = std::move(nodes);
  parts.inputs = {value_info("x", {"1", "2"})};
  parts.outputs = {value_info(output, {"1", "2"})};
  for (const char* name : {"w", "v", "u"})
    parts.initializers.push_back(heddle::testing::tensor(name, {2, 2}, kWeights));
  parts.initializers.push_back(heddle::testing::tensor("b", {2}, std::vector<float>{1, 2}));
  return onnx::parse_model(model_bytes(parts), "test.onnx");
}

TEST(Decide, ProductsReadBytesAndTheResultOfTheNetworkIsReal) {
  const Decision d =
      decide(model_of({node("m", "MatMul", {"x", "w"}, {"a"}), node("r", "Relu", {"a"}, {"r"}),
                       node("n", "MatMul", {"r", "v"}, {"y"})}),
             {});
  EXPECT_THAT(d.tensors, ElementsAre("x", "r"));
  EXPECT_THAT(d.products, ElementsAre(0, 2));
  EXPECT_THAT(d.reads, ElementsAre(Pair(0, 0), Pair(2, 0)));
  EXPECT_THAT(d.other_nodes, IsEmpty());  // the Relu is computed with the product
}

// The sum of a block is bytes where a product reads it, and so are both of its operands; it is in
// f32 where nothing but a norm reads it.
TEST(Decide, ResidualSumsAreBytesWhereTheirReadersAre) {
  const std::vector<onnx::Message> block = {node("m", "MatMul", {"x", "w"}, {"a"}),
                                            node("s", "Add", {"a", "x"}, {"s"})};
  std::vector<onnx::Message> read = block, normed = block;
  read.push_back(node("n", "MatMul", {"s", "v"}, {"y"}));
  normed.push_back(node("l", "LayerNormalization", {"s", "b"}, {"l"}));
  normed.push_back(node("n", "MatMul", {"l", "v"}, {"y"}));
  const Decision r = decide(model_of(read), {});
  EXPECT_THAT(r.tensors, ElementsAre("x", "a", "s"));
  EXPECT_THAT(r.reads, UnorderedElementsAre(Pair(0, 0), Pair(1, 0), Pair(1, 1), Pair(2, 0)));
  const Decision n = decide(model_of(normed), {});
  EXPECT_THAT(n.other_nodes, ElementsAre(Pair("Add", 1), Pair("LayerNormalization", 1)));
  EXPECT_THAT(n.tensors, ElementsAre("x", "l"));
  EXPECT_THAT(n.reads, UnorderedElementsAre(Pair(0, 0), Pair(3, 0)));
}

TEST(Decide, NodesThatPassValuesOnShareARange) {
  const Decision d =
      decide(model_of({node("m", "MatMul", {"x", "w"}, {"a"}), node("t", "Transpose", {"a"}, {"t"}),
                       node("n", "MatMul", {"t", "v"}, {"y"})}),
             {});
  EXPECT_THAT(d.tensors, ElementsAre("x", "a", "t"));
  EXPECT_THAT(d.range_of, ElementsAre(Pair("t", "a")));
}

// Parts that others read, too, keep their range.
TEST(Decide, PartsOfAConcatHaveTheRangeOfTheWhole) {
  const Decision d = decide(model_of({node("m", "MatMul", {"x", "w"}, {"a"}),
                                      node("c", "Concat", {"a", "x"}, {"c"},
                                           {heddle::testing::attribute("axis", int64_t{0})}),
                                      node("n", "MatMul", {"c", "v"}, {"y"})}),
                            {});
  EXPECT_THAT(d.tensors, ElementsAre("x", "a", "c"));
  EXPECT_THAT(d.range_of, ElementsAre(Pair("a", "c")));
  // A reader in f32 sees the parts before they take the steps of the whole.
  const Decision e = decide(
      model_of(
          {node("m", "MatMul", {"x", "w"}, {"a"}),
           node("c", "Concat", {"a", "x"}, {"c"}, {heddle::testing::attribute("axis", int64_t{0})}),
           node("n", "MatMul", {"c", "v"}, {"z"}), node("s", "Sigmoid", {"c"}, {"g"}),
           node("p", "Add", {"z", "g"}, {"y"})}),
      {});
  EXPECT_THAT(e.range_of, IsEmpty());
}

TEST(Decide, SaysWhyAProductStaysInFloat) {
  const Decision d = decide(
      model_of({node("m", "MatMul", {"x", "w"}, {"a"}), node("n", "MatMul", {"a", "a"}, {"c"}),
                node("k", "MatMul", {"c", "v"}, {"y"})}),
      {.keep = {"k"}});
  ASSERT_EQ(d.nodes.size(), 3U);
  EXPECT_THAT(d.nodes[0].in_float, IsEmpty());
  EXPECT_EQ(d.nodes[1].in_float, "both of its operands are computed");
  EXPECT_EQ(d.nodes[2].in_float, "it is kept in f32 on request");
  EXPECT_THROW(decide(model_of({node("m", "MatMul", {"x", "w"}, {"y"})}), {.keep = {"n"}}), Error);
}

// A bias is added where the product is scaled, so the sum alone is stored.
TEST(Decide, ABiasIsNoResidualSum) {
  const Decision d =
      decide(model_of({node("m", "MatMul", {"x", "w"}, {"a"}), node("s", "Add", {"a", "b"}, {"s"}),
                       node("n", "MatMul", {"s", "v"}, {"y"})}),
             {});
  EXPECT_THAT(d.tensors, ElementsAre("x", "s"));
}

}  // namespace
}  // namespace heddle::quantize
