// Graphs inside nodes, and sequences.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "heddle/codegen/interpreter.h"
#include "heddle/onnx/import.h"
#include "heddle/support/error.h"
#include "onnx/imported.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<float> run(const OnnxModel& model, const std::vector<NDArray>& inputs) {
  std::vector<TensorValue> known;
  for (size_t i = 0; i < inputs.size(); ++i) known.push_back({model.inputs[i], inputs[i]});
  const NDArray made = interpret(model.outputs, known)[0];
  return {made.data<float>(), made.data<float>() + made.size()};
}

NDArray floats(const std::vector<float>& values) {
  return NDArray::from(values, {static_cast<int64_t>(values.size())});
}

/// A graph of one node, that reads names of the graphs around it.
GraphParts branch(const std::string& op, const std::vector<std::string>& inputs) {
  GraphParts g;
  g.nodes = {node("", op, inputs, {"made"})};
  g.outputs = {value_info("made", {})};
  return g;
}

/// y = c ? x + x : x * x
ModelParts model_with_if(const GraphParts& yes, const GraphParts& no) {
  ModelParts p;
  p.inputs = {value_info("x", {"3"}), value_info("c", {}, kBool)};
  p.outputs = {value_info("y", {"3"})};
  p.nodes = {node("choice", "If", {"c"}, {"y"},
                  {attribute("then_branch", yes), attribute("else_branch", no)})};
  return p;
}

TEST(OnnxControl, AConditionThatIsKnownTakesItsBranchAlone) {
  // The other branch would be an error: it squeezes an extent of 3.
  ModelParts p = model_with_if(branch("Neg", {"x"}), branch("Squeeze", {"x", "zero"}));
  p.inputs.pop_back();
  p.initializers = {tensor("zero", {1}, std::vector<int64_t>{0}),
                    tensor("rank", {1}, std::vector<int64_t>{1})};
  p.nodes.insert(p.nodes.begin(),
                 {node("", "Shape", {"x"}, {"shape"}), node("", "Shape", {"shape"}, {"n"}),
                  node("", "Equal", {"n", "rank"}, {"c"})});
  const OnnxModel model = imported(p);
  EXPECT_THAT(run(model, {floats({1, 2, 3})}), ElementsAre(-1, -2, -3));
}

TEST(OnnxControl, AnOpenConditionSelects) {
  const OnnxModel model =
      imported(model_with_if(branch("Add", {"x", "x"}), branch("Mul", {"x", "x"})));
  const NDArray x = floats({1, 2, 3});
  EXPECT_THAT(run(model, {x, NDArray::full({}, boolean, 1)}), ElementsAre(2, 4, 6));
  EXPECT_THAT(run(model, {x, NDArray::full({}, boolean, 0)}), ElementsAre(1, 4, 9));
  // Known numbers of a branch are narrowed as well.
  GraphParts number = branch("Expand", {"one", "three"});
  number.initializers = {tensor("one", {1}, std::vector<float>{1}),
                         tensor("three", {1}, std::vector<int64_t>{3})};
  const OnnxModel half = [&] {
    const ModelFolder folder("half");
    return import_onnx(
        folder.write("m.onnx", model_bytes(model_with_if(branch("Neg", {"x"}), number))),
        {.precision = f16});
  }();
  EXPECT_THAT(run(half, {x, NDArray::full({}, boolean, 0)}), ElementsAre(1, 1, 1));
}

TEST(OnnxControl, BranchesOfAnOpenConditionMustAgree) {
  ModelParts p = model_with_if(branch("Neg", {"x"}), branch("Unsqueeze", {"x", "zero"}));
  p.initializers = {tensor("zero", {1}, std::vector<int64_t>{0})};
  EXPECT_THAT(import_error(p), AllOf(HasSubstr("node 'choice' (If): 'y' is f32 (3) or f32 (1, 3)"),
                                     HasSubstr("must be known at import")));
}

TEST(OnnxControl, AMistakeInABranchNamesItsNode) {
  GraphParts wrong = branch("Softmax", {"x"});
  wrong.nodes = {node("inside", "Transpose", {"x"}, {"made"},
                      {attribute("perm", std::vector<int64_t>{0, 1})})};
  EXPECT_THAT(import_error(model_with_if(branch("Neg", {"x"}), wrong)),
              AllOf(HasSubstr("node 'inside' (Transpose)"), ::testing::Not(HasSubstr("(If)"))));
  GraphParts unknown = branch("Frobnicate", {"x"});
  EXPECT_THAT(import_error(model_with_if(unknown, unknown)), HasSubstr("(Frobnicate)"));
  EXPECT_THAT(import_error(model_with_if(branch("Neg", {"z"}), branch("Neg", {"x"}))),
              HasSubstr("reads 'z', which is no input"));
}

/// y = x, to which the body adds w in each iteration.
ModelParts model_with_loop(const Message& next_condition) {
  GraphParts body;
  body.inputs = {value_info("i", {}, kInt64), value_info("going", {}, kBool), value_info("a", {})};
  body.initializers = {tensor("w", {3}, std::vector<float>{1, 10, 100})};
  body.nodes = {node("", "Add", {"a", "w"}, {"b"}), next_condition};
  body.outputs = {value_info("next", {}, kBool), value_info("b", {})};
  ModelParts p;
  p.inputs = {value_info("x", {"3"})};
  p.outputs = {value_info("y", {"3"})};
  p.initializers = {tensor("trips", {}, std::vector<int64_t>{4}),
                    tensor("limit", {}, std::vector<float>{25}),
                    tensor("last", {}, std::vector<int64_t>{2})};
  p.nodes = {node("repeat", "Loop", {"trips", "", "x"}, {"y"}, {attribute("body", body)})};
  return p;
}

TEST(OnnxControl, LoopsAreUnrolledAndTheirWeightsAreOneConstant) {
  const OnnxModel model = imported(model_with_loop(node("", "Identity", {"going"}, {"next"})));
  EXPECT_THAT(run(model, {floats({1, 2, 3})}), ElementsAre(5, 42, 403));
  EXPECT_EQ(model.constants.size(), 1U);
  // A condition on the number of the iteration is known.
  const OnnxModel shorter = imported(model_with_loop(node("", "Less", {"i", "last"}, {"next"})));
  EXPECT_THAT(run(shorter, {floats({1, 2, 3})}), ElementsAre(4, 32, 303));
}

TEST(OnnxControl, RandomNumbersOfIterationsDiffer) {
  for (const bool with_seed : {false, true}) {
    ModelParts p = model_with_loop(node("", "Identity", {"going"}, {"next"}));
    GraphParts body;
    body.inputs = {value_info("i", {}, kInt64), value_info("going", {}, kBool),
                   value_info("a", {})};
    std::vector<Message> attributes{attribute("shape", std::vector<int64_t>{3})};
    if (with_seed) attributes.push_back(attribute("seed", 5.0F));
    body.nodes = {node("", "RandomUniform", {}, {"r"}, attributes),
                  node("", "Identity", {"going"}, {"next"}), node("", "Identity", {"a"}, {"b"})};
    body.outputs = {value_info("next", {}, kBool), value_info("b", {}), value_info("r", {})};
    p.nodes = {
        node("repeat", "Loop", {"trips", "", "x"}, {"final", "y"}, {attribute("body", body)})};
    const std::vector<float> all = run(imported(p), {});
    ASSERT_EQ(all.size(), 12U);
    EXPECT_EQ(std::set<float>(all.begin(), all.end()).size(), 12U) << with_seed;
    EXPECT_EQ(run(imported(p), {}), all);
  }
}

TEST(OnnxControl, ALoopThatEndsByDataKeepsItsValuesAfterTheEnd) {
  ModelParts p = model_with_loop(node("", "Identity", {"more"}, {"next"}));
  const auto with = [&](const std::string& trips) {
    GraphParts body;
    body.inputs = {value_info("i", {}, kInt64), value_info("going", {}, kBool),
                   value_info("a", {})};
    body.nodes = {node("", "Add", {"a", "a"}, {"b"}),
                  node("", "ReduceMax", {"b"}, {"most"}, {attribute("keepdims", int64_t{0})}),
                  node("", "Less", {"most", "limit"}, {"next"})};
    body.outputs = {value_info("next", {}, kBool), value_info("b", {})};
    p.nodes = {node("repeat", "Loop", {trips, "", "x"}, {"y"}, {attribute("body", body)})};
    return p;
  };
  const OnnxModel model = imported(with("trips"));
  EXPECT_THAT(run(model, {floats({1, 2, 3})}), ElementsAre(16, 32, 48));  // all four
  EXPECT_THAT(run(model, {floats({1, 2, 10})}), ElementsAre(4, 8, 40));   // two
  EXPECT_THAT(run(model, {floats({1, 2, 100})}), ElementsAre(2, 4, 200));
  EXPECT_THAT(import_error(with("")), AllOf(HasSubstr("node 'repeat' (Loop)"),
                                            HasSubstr("depends on the inputs of the model")));
}

TEST(OnnxControl, LoopsWithoutEndAreErrors) {
  ModelParts p = model_with_loop(node("", "Identity", {"going"}, {"next"}));
  p.initializers[0] = tensor("trips", {}, std::vector<int64_t>{1000000});
  EXPECT_THAT(import_error(p), HasSubstr("more than 1024 iterations"));
}

TEST(OnnxControl, GraphsInTheBodiesOfFunctionsReadTheCall) {
  // f(a) = a > 0 everywhere ? a : w * a, where the body's name "w" is that of a tensor outside.
  GraphParts no = branch("Mul", {"a", "w"});
  no.initializers = {tensor("w", {3}, std::vector<float>{2, 3, 4})};
  Message f;
  f.text(1, "F").text(10, "ours").text(4, "a").text(4, "c").text(5, "b");
  f.message(
      7, node("", "If", {"c"}, {"b"},
              {attribute("then_branch", branch("Identity", {"a"})), attribute("else_branch", no)}));
  ModelParts p;
  p.inputs = {value_info("w", {"3"}), value_info("c", {}, kBool)};
  p.outputs = {value_info("y", {"3"})};
  p.nodes = {node("", "F", {"w", "c"}, {"made"}, {}, "ours"),
             node("", "F", {"made", "c"}, {"y"}, {}, "ours")};
  p.functions = {f};
  const OnnxModel model = imported(p);
  EXPECT_THAT(run(model, {floats({1, 1, 1}), NDArray::full({}, boolean, 0)}),
              ElementsAre(4, 9, 16));
}

TEST(OnnxControl, SequencesLeaveNothingInTheDeclaration) {
  ModelParts p;
  p.inputs = {value_info("x", {"4"})};
  p.outputs = {value_info("y", {"4"})};
  p.initializers = {tensor("two", {}, std::vector<int64_t>{2}),
                    tensor("one", {}, std::vector<int64_t>{1})};
  p.nodes = {node("", "SplitToSequence", {"x", "two"}, {"parts"}),
             node("", "SequenceAt", {"parts", "one"}, {"second"}),
             node("", "SequenceErase", {"parts", "one"}, {"rest"}),
             node("", "Neg", {"second"}, {"negative"}),
             node("", "SequenceInsert", {"rest", "negative"}, {"all"}),
             node("", "ConcatFromSequence", {"all"}, {"y"}, {attribute("axis", int64_t{0})})};
  EXPECT_THAT(run(imported(p), {floats({1, 2, 3, 4})}), ElementsAre(1, 2, -3, -4));
  p.outputs = {value_info("all", {})};
  EXPECT_THAT(import_error(p), HasSubstr("the output 'all' is a sequence"));
  p.outputs = {value_info("z", {})};
  p.nodes.push_back(node("wrong", "Relu", {"all"}, {"z"}));
  EXPECT_THAT(import_error(p), AllOf(HasSubstr("node 'wrong' (Relu)"), HasSubstr("is a sequence")));
  p.nodes.back() = node("far", "SequenceAt", {"all", "two"}, {"z"});
  EXPECT_THAT(import_error(p), HasSubstr("position 2 is not in its sequence of 2"));
}

// ONNX says that a sum of nothing is 0.
TEST(OnnxControl, TensorsWithoutElementsAreTaken) {
  ModelParts p;
  p.inputs = {value_info("x", {"1", "3"})};
  p.outputs = {value_info("y", {"1", "3"})};
  p.initializers = {tensor("e", {0, 3}, std::vector<float>{})};
  p.nodes = {node("sum", "ReduceSum", {"e"}, {"s"}),
             node("all", "Concat", {"x", "e"}, {"z"}, {attribute("axis", int64_t{0})}),
             node("add", "Add", {"z", "s"}, {"y"})};
  const NDArray x = NDArray::from(std::vector<float>{1, -2, 3}, {1, 3});
  EXPECT_THAT(run(imported(p), {x}), ElementsAre(1, -2, 3));
}

}  // namespace
}  // namespace heddle::testing
