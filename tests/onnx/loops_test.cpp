// Recurrent layers and scans of files as loops: of many steps, and of an open number of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/ops/ops.h"
#include "heddle/support/error.h"
#include "onnx/network_at_sizes.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kInputs = 5, kHidden = 6;

Message text_attribute(const std::string& name, const std::string& value) {
  return Message().text(1, name).text(4, value).number(20, 3);
}

/// A layer of `op` over x (seq, batch, 5), with `extra` inputs: "lengths", "first".
ModelParts layer_model(const std::string& op, const std::string& direction, bool lengths,
                       bool first) {
  const int64_t gates = op == "LSTM" ? 4 : op == "GRU" ? 3 : 1;
  const int64_t d = direction == "bidirectional" ? 2 : 1;
  const std::string directions = std::to_string(d), hidden = std::to_string(kHidden);
  ModelParts p;
  p.inputs = {value_info("x", {"seq", "batch", std::to_string(kInputs)})};
  p.initializers = {
      tensor("w", {d, gates * kHidden, kInputs}, ramp(d * gates * kHidden * kInputs)),
      tensor("r", {d, gates * kHidden, kHidden}, ramp(d * gates * kHidden * kHidden, 0.05f)),
      tensor("b", {d, 2 * gates * kHidden}, ramp(d * 2 * gates * kHidden))};
  std::vector<std::string> inputs{"x", "w", "r", "b"};
  if (lengths || first) inputs.push_back(lengths ? "lengths" : "");
  if (lengths) {
    p.inputs.push_back(value_info("sizes", {"batch"}));
    // Numbers from -1 to 1 become lengths from 0 to 8.
    p.initializers.push_back(tensor("eight", {}, std::vector<float>{8}));
    p.nodes = {node("abs", "Abs", {"sizes"}, {"s"}), node("mul", "Mul", {"s", "eight"}, {"m"}),
               node("cast", "Cast", {"m"}, {"lengths"}, {attribute("to", int64_t{6})})};
  }
  if (first) {
    p.inputs.push_back(value_info("h0", {directions, "batch", hidden}));
    inputs.emplace_back("h0");
  }
  p.nodes.push_back(
      node("layer", op, inputs, {"all", "last"},
           {attribute("hidden_size", kHidden), text_attribute("direction", direction)}));
  p.nodes.push_back(node("relu", "Relu", {"all"}, {"y"}));
  p.nodes.push_back(node("tanh", "Tanh", {"last"}, {"z"}));
  p.outputs = {value_info("y", {"seq", directions, "batch", hidden}),
               value_info("z", {directions, "batch", hidden})};
  return p;
}

/// "" where the model over its ranges computes at these sizes what an unrolled import does.
std::string wrong_at_sizes(const ModelParts& parts, const Imported& open,
                           const NetworkKernel& kernel, int64_t seq, int64_t batch) {
  std::map<std::string, int64_t> dims{{"seq", seq}};
  if (batch > 0) dims["batch"] = batch;
  const Imported fixed(parts, {.dims = dims});
  EXPECT_TRUE(fixed.model.updates.repeats.empty());
  std::vector<NDArray> inputs, outputs;
  std::vector<TensorValue> values;
  for (const Tensor& t : fixed.model.inputs) {
    inputs.push_back(NDArray::random(t.extents(), t.dtype(), inputs.size() + 1));
    values.push_back({t, inputs.back()});
  }
  for (const Tensor& t : fixed.model.outputs)
    outputs.push_back(NDArray::full(t.extents(), t.dtype(), 77));
  kernel.call(open.model.arrays(inputs, outputs));
  const std::vector<NDArray> want = interpret(fixed.model.outputs, values);
  for (size_t o = 0; o < want.size(); ++o) {
    const Difference d = compare(outputs[o], want[o], 1e-4, 1e-4);
    if (!d.ok()) return fixed.model.output_names[o] + ": " + describe(d, outputs[o]);
  }
  return "";
}

NetworkKernel built(const Imported& m) {
  const Network network(m.model.outputs, Target::host(), {}, {}, m.model.updates);
  EXPECT_FALSE(network.loops().empty());
  return network.build(m.model.args());
}

TEST(OnnxLoops, AnOpenNumberOfStepsIsASizeOfTheCall) {
  struct Case {
    const char *op, *direction;
    bool lengths, first;
  };
  for (const Case& c : {Case{"LSTM", "forward", false, false},
                        {"LSTM", "bidirectional", true, true},
                        {"GRU", "reverse", false, true},
                        {"RNN", "bidirectional", false, false},
                        {"GRU", "forward", true, false}}) {
    SCOPED_TRACE(std::string(c.op) + " " + c.direction + (c.lengths ? " lengths" : "") +
                 (c.first ? " first" : ""));
    const ModelParts parts = layer_model(c.op, c.direction, c.lengths, c.first);
    const Imported open(
        parts, {.dims = {{"batch", 2}}, .ranges = {{"seq", dim("seq", 1, 40)}}, .loops = true});
    const NetworkKernel kernel = built(open);
    for (const int64_t seq : {40, 1, 2, 3, 9, 26})
      EXPECT_EQ(wrong_at_sizes(parts, open, kernel, seq, 2), "") << seq;
  }
}

TEST(OnnxLoops, StepsAndSequencesAreOpenTogether) {
  const ModelParts parts = layer_model("LSTM", "bidirectional", false, true);
  const Imported open(parts, {.ranges = {{"seq", dim("seq", 1, 30)}, {"batch", dim("batch", 1, 4)}},
                              .loops = true});
  const NetworkKernel kernel = built(open);
  for (const int64_t batch : {1, 2, 4}) {
    for (const int64_t seq : {30, 1, 7})
      EXPECT_EQ(wrong_at_sizes(parts, open, kernel, seq, batch), "") << seq << " " << batch;
  }
}

TEST(OnnxLoops, ManyStepsAreALoopAndFewAreNot) {
  const ModelParts parts = layer_model("GRU", "forward", false, false);
  const auto at = [&](int64_t steps, bool loops = true) {
    return Imported(parts, {.dims = {{"seq", steps}, {"batch", 1}}, .loops = loops});
  };
  EXPECT_TRUE(at(3).model.updates.repeats.empty());
  EXPECT_TRUE(at(500, false).model.updates.repeats.empty());
  const Imported many = at(500);
  ASSERT_EQ(many.model.updates.repeats.size(), 1U);
  EXPECT_EQ(many.model.updates.repeats[0].name, "GRU layer");
  const NetworkKernel kernel = built(many);
  EXPECT_EQ(wrong_at_sizes(parts, many, kernel, 500, 1), "");
}

TEST(OnnxLoops, LengthsOutsideOfTheStepsAreNamed) {
  ModelParts parts = layer_model("LSTM", "forward", true, false);
  parts.nodes.erase(parts.nodes.begin(), parts.nodes.begin() + 3);
  parts.inputs.pop_back();
  const Message lengths =
      tensor_header("lengths", 6, {2}).text(9, raw(std::vector<int32_t>{4, 10}));
  parts.initializers.push_back(lengths);
  try {
    const Imported m(parts, {.dims = {{"seq", 9}, {"batch", 2}}});
    ADD_FAILURE() << "imported";
  } catch (const Error& e) {
    EXPECT_THAT(e.message, HasSubstr("a sequence has 10 of 9 steps"));
  }
}

/// Running sums of rows and of their squares, the second one from the last row to the first.
ModelParts scan_model() {
  GraphParts body;
  body.inputs = {value_info("sum", {"4"}), value_info("a", {"4"}), value_info("b", {"4"})};
  body.nodes = {node("", "Add", {"sum", "a"}, {"next"}), node("", "Mul", {"b", "b"}, {"square"}),
                node("", "Add", {"next", "square"}, {"both"})};
  body.outputs = {value_info("next", {"4"}), value_info("both", {"4"}),
                  value_info("square", {"4"})};
  ModelParts p;
  p.inputs = {value_info("start", {"4"}), value_info("x", {"seq", "4"}),
              value_info("u", {"4", "seq"})};
  p.outputs = {value_info("last", {"4"}), value_info("rows", {"4", "seq"}),
               value_info("back", {"seq", "4"})};
  p.nodes = {node("scan", "Scan", {"start", "x", "u"}, {"last", "rows", "back"},
                  {attribute("body", body), attribute("num_scan_inputs", int64_t{2}),
                   attribute("scan_input_axes", std::vector<int64_t>{0, 1}),
                   attribute("scan_input_directions", std::vector<int64_t>{0, 1}),
                   attribute("scan_output_axes", std::vector<int64_t>{1, 0}),
                   attribute("scan_output_directions", std::vector<int64_t>{0, 1})})};
  return p;
}

TEST(OnnxLoops, AScanIsALoop) {
  const ModelParts parts = scan_model();
  const Imported fixed(parts, {.dims = {{"seq", 60}}, .loops = true});
  ASSERT_EQ(fixed.model.updates.repeats.size(), 1U);
  EXPECT_EQ(wrong_at_sizes(parts, fixed, built(fixed), 60, 0), "");
  const Imported open(parts, {.ranges = {{"seq", dim("seq", 1, 2000)}}, .loops = true});
  const NetworkKernel kernel = built(open);
  for (const int64_t seq : {1, 2, 5, 70})
    EXPECT_EQ(wrong_at_sizes(parts, open, kernel, seq, 0), "");
}

/// a = 0.5 a + x(i) + i + k - step, k = k + 1, for each row i of x; `more` nodes make `on` and `extra`.
ModelParts loop_model(const std::vector<Message>& more) {
  GraphParts body;
  body.inputs = {value_info("i", {}, kInt64), value_info("go", {}, kBool), value_info("a", {"4"}),
                 value_info("step", {"4"}), value_info("k", {}, kInt64)};
  body.nodes = {node("", "Gather", {"x", "i"}, {"row"}),
                node("", "Mul", {"a", "half"}, {"less"}),
                node("", "Add", {"less", "row"}, {"sum"}),
                node("", "Add", {"i", "k"}, {"both"}),
                node("", "Cast", {"both"}, {"number"}, {attribute("to", int64_t{1})}),
                node("", "Add", {"sum", "number"}, {"moved"}),
                node("", "Sub", {"moved", "step"}, {"next"}),
                node("", "Add", {"k", "one"}, {"more"}),
                node("", "Identity", {"step"}, {"same"}),
                node("", "Relu", {"next"}, {"shown"})};
  body.nodes.insert(body.nodes.end(), more.begin(), more.end());
  body.outputs = {value_info("on", {}, kBool), value_info("next", {"4"}),
                  value_info("same", {"4"}),   value_info("more", {}, kInt64),
                  value_info("shown", {"4"}),  value_info("extra", {"4"})};
  ModelParts p;
  p.inputs = {value_info("x", {"seq", "4"}), value_info("start", {"4"})};
  p.outputs = {value_info("last", {"4"}), value_info("count", {}), value_info("y", {"seq", "4"}),
               value_info("z", {"seq", "4"})};
  p.initializers = {tensor("half", {}, std::vector<float>{0.5F}),
                    tensor("one", {}, std::vector<int64_t>{1}),
                    tensor("zero", {}, std::vector<int64_t>{0}),
                    tensor("steps", {4}, std::vector<float>{1, 2, 3, 4})};
  p.nodes = {
      node("", "Shape", {"x"}, {"shape"}),
      node("", "Gather", {"shape", "zero"}, {"trips"}),
      node("repeat", "Loop", {"trips", "", "start", "steps", "zero"},
           {"final", "stays", "k_last", "shown_all", "extra_all"}, {attribute("body", body)}),
      node("", "Add", {"final", "stays"}, {"last"}),
      node("", "Cast", {"k_last"}, {"count"}, {attribute("to", int64_t{1})}),
      node("", "Relu", {"shown_all"}, {"y"}),
      node("", "Relu", {"extra_all"}, {"z"})};
  return p;
}

TEST(OnnxLoops, ALoopIsALoop) {
  const Message goes = node("", "Identity", {"go"}, {"on"});
  const ModelParts parts = loop_model({goes, node("", "Neg", {"row"}, {"extra"})});
  const Imported many(parts, {.dims = {{"seq", 60}}, .loops = true});
  ASSERT_EQ(many.model.updates.repeats.size(), 1U);
  EXPECT_EQ(many.model.updates.repeats[0].states.size(), 2U) << "the step is none";
  EXPECT_EQ(wrong_at_sizes(parts, many, built(many), 60, 0), "");
  EXPECT_TRUE(Imported(parts, {.dims = {{"seq", 5}}, .loops = true}).model.updates.repeats.empty());
  const Imported open(parts, {.ranges = {{"seq", dim("seq", 1, 900)}}, .loops = true});
  const NetworkKernel kernel = built(open);
  for (const int64_t seq : {1, 2, 5, 70})
    EXPECT_EQ(wrong_at_sizes(parts, open, kernel, seq, 0), "");
}

// What reads the number as it is known at import, or ends by data, is unrolled.
TEST(OnnxLoops, IterationsThatAreNotAlikeAreUnrolled) {
  const Message goes = node("", "Identity", {"go"}, {"on"});
  const std::vector<std::vector<Message>> bodies{
      {goes, node("", "Unsqueeze", {"more", "zero1"}, {"k1"}),
       node("", "ConstantOfShape", {"k1"}, {"zeros"}),
       node("", "ReduceSum", {"zeros"}, {"none"}, {attribute("keepdims", int64_t{0})}),
       node("", "Add", {"row", "none"}, {"extra"})},
      {node("", "Equal", {"k", "k"}, {"same_k"}), node("", "And", {"same_k", "go"}, {"on"}),
       node("", "Neg", {"row"}, {"extra"})}};
  for (size_t b = 0; b < bodies.size(); ++b) {
    SCOPED_TRACE(b);
    ModelParts parts = loop_model(bodies[b]);
    parts.initializers.push_back(tensor("zero1", {1}, std::vector<int64_t>{0}));
    const Imported m(parts, {.dims = {{"seq", 30}}, .loops = true});
    EXPECT_TRUE(m.model.updates.repeats.empty());
    const NetworkKernel kernel = Network(m.model.outputs).build(m.model.args());
    EXPECT_EQ(wrong_at_sizes(parts, m, kernel, 30, 0), "");
  }
}

}  // namespace
}  // namespace heddle::testing
