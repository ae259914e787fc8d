// Which nodes and tasks a network is cut into.
#include <set>

#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

// What a task's declaration reads, as (shape, constant) of its inputs.
std::vector<Tensor> inputs_of(const TuneTask& task) {
  std::vector<Tensor> inputs;
  for (const Tensor& t : task.args) {
    if (t.op()->is_placeholder()) inputs.push_back(t);
  }
  return inputs;
}

// Every node's tensors fit the arguments of its task, and are made before they are read.
void expect_consistent(const Network& net) {
  std::vector<Tensor> made;
  auto among = [](const std::vector<Tensor>& list, const Tensor& t) {
    return std::any_of(list.begin(), list.end(), [&](const Tensor& x) { return x.same_as(t); });
  };
  std::vector<double> calls(net.tasks().size(), 0);
  for (const NetworkNode& node : net.nodes()) {
    const TuneTask& task = net.tasks().at(static_cast<size_t>(node.task));
    calls[static_cast<size_t>(node.task)] += 1;
    std::vector<Tensor> tensors = node.inputs;
    tensors.insert(tensors.end(), node.outputs.begin(), node.outputs.end());
    ASSERT_EQ(tensors.size(), task.args.size());
    for (size_t i = 0; i < tensors.size(); ++i) {
      EXPECT_EQ(tensors[i].extents(), task.args[i].extents());
      EXPECT_EQ(tensors[i].dtype(), task.args[i].dtype());
      EXPECT_EQ(i < node.inputs.size(), task.args[i].op()->is_placeholder());
      EXPECT_EQ(tensors[i].op()->is_constant(), task.args[i].op()->is_constant());
    }
    for (const Tensor& t : node.inputs) EXPECT_TRUE(t.op()->is_placeholder() || among(made, t));
    for (const Tensor& t : node.outputs) {
      EXPECT_FALSE(among(made, t));
      made.push_back(t);
    }
  }
  for (const Tensor& t : net.outputs()) EXPECT_TRUE(among(made, t)) << t.name();
  for (size_t i = 0; i < calls.size(); ++i) EXPECT_EQ(calls[i], net.tasks()[i].weight);
}

TEST(Extract, OneElementwiseOperationIsOneNode) {
  Tensor x = placeholder({4, 6}, f32, "x");
  Tensor y = ops::relu(x);
  const Network net({y});
  expect_consistent(net);
  ASSERT_EQ(net.nodes().size(), 1u);
  EXPECT_TRUE(net.nodes()[0].inputs.at(0).same_as(x));
  EXPECT_TRUE(net.nodes()[0].outputs.at(0).same_as(y));
  EXPECT_FALSE(net.tasks()[0].args[0].same_as(x)) << "a task stands alone";
}

TEST(Extract, AnEpilogueStaysWithItsReduction) {
  Tensor x = placeholder({8, 12}, f32, "x");
  const Network net({ops::relu(dense_layer(x, 10))});
  expect_consistent(net);
  EXPECT_EQ(net.nodes().size(), 1u);
  EXPECT_EQ(net.nodes()[0].inputs.size(), 3u);
}

TEST(Extract, EqualLayersAreOneTaskCalledOften) {
  Tensor x = placeholder({8, 16}, f32, "x");
  for (int layer = 0; layer < 5; ++layer) x = ops::relu(dense_layer(x, 16));
  const Network net({x});
  expect_consistent(net);
  EXPECT_EQ(net.nodes().size(), 5u);
  ASSERT_EQ(net.tasks().size(), 1u);
  EXPECT_EQ(net.tasks()[0].weight, 5);
}

TEST(Extract, AStackOfEqualResidualBlocksSharesItsTasks) {
  Tensor x = ops::relu(conv_norm(placeholder({1, 3, 6, 6}, f32, "x"), 8));
  for (int block = 0; block < 4; ++block) x = residual_block(x);
  const Network net({ops::global_avg_pool(x)});
  expect_consistent(net);
  // Four blocks more add calls, but no task.
  Tensor longer = x;
  for (int block = 0; block < 4; ++block) longer = residual_block(longer);
  const Network twice({ops::global_avg_pool(longer)});
  expect_consistent(twice);
  EXPECT_EQ(net.tasks().size(), twice.tasks().size()) << net.to_text() << twice.to_text();
  EXPECT_LT(net.nodes().size(), twice.nodes().size());
  const auto heaviest =
      std::max_element(net.tasks().begin(), net.tasks().end(),
                       [](const TuneTask& a, const TuneTask& b) { return a.weight < b.weight; });
  EXPECT_EQ(heaviest->weight, 4) << net.to_text();
}

TEST(Extract, WhereTwoConvolutionsMeetOneHasTheActivation) {
  const Tensor x = placeholder({1, 8, 6, 6}, f32, "x");
  const auto conv = [](const Tensor& t, int64_t to, int64_t kernel, int64_t stride) {
    const ops::Conv options{.stride = {stride}, .padding = {kernel / 2}};
    return ops::conv2d(t, weights({to, t.extent(1), kernel, kernel}), options,
                       weights({to}, "bias"));
  };
  const Tensor inner = ops::relu(conv(x, 8, 3, 2));
  const Tensor block = ops::relu(ops::add(conv(inner, 16, 1, 1), conv(x, 16, 1, 2)));
  const Tensor next = ops::relu(conv(block, 8, 3, 1)), sum = ops::add(conv(next, 16, 1, 1), block);
  const Network net({ops::relu(sum)});
  expect_consistent(net);
  for (const TuneTask& task : net.tasks()) EXPECT_THAT(task.name, HasSubstr("conv2d"));
  EXPECT_EQ(wrong_network({ops::relu(sum)}), "");
}

TEST(Extract, OtherShapesAndOtherConstantsAreOtherTasks) {
  Tensor x = placeholder({8, 16}, f32, "x");
  Tensor wide = ops::relu(dense_layer(x, 32));
  Tensor fixed = ops::relu(dense_layer(wide, 16));
  Tensor w = placeholder({16, 16}, f32, "w"), b = placeholder({16}, f32, "b");
  Tensor moving = ops::relu(ops::dense(fixed, w, b));  // not constant
  Tensor again = ops::relu(dense_layer(moving, 16));   // constant
  const Network net({again});
  expect_consistent(net);
  EXPECT_EQ(net.tasks().size(), 4u) << net.to_text();
  std::set<std::string> names;
  for (const TuneTask& task : net.tasks()) names.insert(task.name);
  EXPECT_EQ(names.size(), 4u) << "reports tell tasks apart by name";
}

TEST(Extract, WhatDependsOnConstantsAloneIsPreparedInItsReaders) {
  Tensor x = placeholder({1, 4, 6, 6}, f32, "x");
  const Network net({conv_norm(x, 4)});
  expect_consistent(net);
  for (const NetworkNode& node : net.nodes()) {
    for (const Tensor& t : node.outputs) {
      const ComputeDag dag({t});
      EXPECT_FALSE(dag.info(dag.index_of(t.op())).depends_only_on_constants) << net.to_text();
    }
  }
  // The statistics arrive as they are, not as what was made of them.
  const std::vector<Tensor> inputs = inputs_of(net.tasks()[0]);
  EXPECT_EQ(std::count_if(inputs.begin(), inputs.end(),
                          [](const Tensor& t) { return t.op()->is_constant(); }),
            5);
}

TEST(Extract, AConstantStageWithTwoReadersIsInBoth) {
  Tensor w = weights({12, 12}, "w"), x = placeholder({12, 12}, f32, "x");
  Tensor half = compute({12, 12}, [&](Axis i, Axis j) { return exp(w(j, i)); }, "half");
  Tensor first = ops::matmul(x, half), second = ops::matmul(first, half);
  const Network net({second});
  expect_consistent(net);
  EXPECT_EQ(net.nodes().size(), 2u);
  ASSERT_EQ(net.tasks().size(), 1u) << net.to_text();
  for (const NetworkNode& node : net.nodes()) {
    EXPECT_TRUE(std::any_of(node.inputs.begin(), node.inputs.end(),
                            [&](const Tensor& t) { return t.same_as(w); }));
  }
}

TEST(Extract, TheOrderOfArgumentsIsThatOfTheTask) {
  // a - b and b - a are one task; only the order of the inputs tells them apart.
  Tensor x = placeholder({8, 8}, f32, "x"), y = placeholder({8, 8}, f32, "y");
  Tensor a = ops::sub(x, y), b = ops::sub(y, x);
  const Network net({a, b});
  expect_consistent(net);
  ASSERT_EQ(net.tasks().size(), 1u);
  ASSERT_EQ(net.nodes().size(), 2u);
  for (const NetworkNode& node : net.nodes()) {
    const bool is_a = node.outputs[0].same_as(a);
    EXPECT_TRUE(node.inputs[0].same_as(is_a ? x : y));
    EXPECT_TRUE(node.inputs[1].same_as(is_a ? y : x));
  }
}

TEST(Extract, ReadingOneTensorTwiceIsAnotherTaskThanReadingTwo) {
  Tensor x = placeholder({8, 8}, f32, "x"), y = placeholder({8, 8}, f32, "y");
  const Network net({ops::mul(x, y), ops::mul(x, x)});
  expect_consistent(net);
  EXPECT_EQ(net.tasks().size(), 2u);
}

TEST(Extract, OnlyTheOutputsOfATupleThatAreReadAreWritten) {
  Tensor x = placeholder({6, 20}, f32, "x");
  Axis k = reduce_axis(20, "k");
  Reducer extremes = reducer("extremes", {f32, f32}, {Expr(1e30f), Expr(-1e30f)},
                             [](const std::vector<Expr>& a, const std::vector<Expr>& b) {
                               return std::vector<Expr>{min(a[0], b[0]), max(a[1], b[1])};
                             });
  std::vector<Tensor> both =
      compute_all({6}, [&](Axis i) { return extremes({x(i, k), x(i, k)}, {k}); }, "both");
  Axis m = reduce_axis(6, "m");
  Tensor total = compute({1}, [&](Axis) { return sum(both[1](m), m); }, "total");
  const Network net({total});
  expect_consistent(net);
  ASSERT_EQ(net.nodes().size(), 2u);
  ASSERT_EQ(net.nodes()[0].outputs.size(), 1u);
  EXPECT_TRUE(net.nodes()[0].outputs[0].same_as(both[1]));
}

TEST(Extract, TheTableNamesOperatorsShapesAndCalls) {
  const std::string text = Network({digits_network()}).to_text();
  EXPECT_THAT(text, HasSubstr("conv2d"));
  EXPECT_THAT(text, HasSubstr("f32[3,10]"));
  EXPECT_THAT(text, HasSubstr("calls"));
}

TEST(Extract, ANetworkWithoutOutputsIsRefused) {
  EXPECT_THROW(Network(std::vector<Tensor>{}), Error);
}

}  // namespace
}  // namespace heddle::testing
