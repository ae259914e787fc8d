// What a network stores is decided once: the template of a node opens no group for a stage that the
// plan of the network keeps inside of it.
#include "heddle/autodiff/gradient.h"
#include "network/cut/cut_network.h"
#include "network/drawn_networks.h"

namespace heddle::testing {
namespace {

/// The groups of nodes that neither end their node nor depend on constants alone, after these
/// passes; empty where there are none.
std::string groups_not_planned(const ComputeDag& declared, const Target& target,
                               const PassOptions& passes) {
  std::string text;
  const network::CutNetwork cut = network::cut_network(declared, target, passes);
  for (const network::ExtractedNode& node : cut.nodes) {
    const ComputeDag dag(node.task_outputs);
    const int end = dag.index_of(node.task_outputs[0].op());
    for (const StageGroup& g : plan_groups(dag, &target)) {
      if (g.output_stage == end || dag.info(g.output_stage).precomputable) continue;
      text += "the node of " + dag.stage(end).name() + " stores " +
              dag.stage(g.output_stage).name() + " (" + to_string(passes) + ")\n";
    }
  }
  return text;
}

/// As the rules choose, and with each choice made the other way.
std::string of_every_choice(const std::vector<Tensor>& outputs, const Target& target) {
  const ComputeDag declared(outputs);
  const network::CutNetwork usual = network::cut_network(declared, target, {});
  std::string text = groups_not_planned(declared, target, {});
  for (const NetworkChoice& c : usual.choices.list())
    text += groups_not_planned(declared, target, {.choices = {{c.name, !c.on}}});
  return text;
}

class PlannedGroups : public ::testing::TestWithParam<DataType> {};

TEST_P(PlannedGroups, AreThoseOfTheNetwork) {
  expect_nothing_wrong({.type = GetParam()}, of_every_choice);
}

INSTANTIATE_TEST_SUITE_P(Types, PlannedGroups, ::testing::Values(f32, f16),
                         [](const auto& info) { return to_string(info.param); });

TEST(PlannedGroupsOfANorm, AProductWhoseSumsItNormalisesIsANodeOfItsOwn) {
  // A norm of one row, behind a product with a residual: the sum of both has as few points as the
  // reductions of a norm of many rows.
  const Target target = Target::parse("cuda -gpu=h100");
  const Tensor x = placeholder({1, 1, 96}, f32, "x"), rows = placeholder({1, 196, 96}, f32, "rows");
  const Tensor sum = ops::add(x, linear(x, 96));
  const Tensor y = ops::layer_norm(ops::concat({sum, rows}, 1), weights({96}), weights({96}));
  EXPECT_EQ(of_every_choice({linear(y, 64)}, target), "");
}

/// What the nodes of the gradient of `y` store, in the order of its stages.
std::vector<std::string> stored_by_gradient(const Tensor& y, const std::vector<Tensor>& x,
                                            const char* target = "cuda -gpu=h100") {
  const Tensor head = placeholder(y.shape(), y.dtype(), "head");
  const network::CutNetwork cut =
      network::cut_network(ComputeDag(gradient({y}, x, {head})), Target::parse(target), {});
  std::vector<std::string> names;
  for (const network::ExtractedNode& node : cut.nodes)
    names.push_back(node.task_outputs[0].op()->name());
  return names;
}

TEST(PlannedGroupsOfAGradient, ANormReadsItsRowsOnce) {
  const Tensor x = placeholder({256, 768}, f32, "x"), scale = placeholder({768}, f32, "scale"),
               bias = placeholder({768}, f32, "bias");
  EXPECT_THAT(stored_by_gradient(ops::layer_norm(x, scale, bias), {x, scale, bias}),
              ::testing::UnorderedElementsAre("layer_norm_mean", "layer_norm_inverse", "x.grad",
                                              "scale.grad", "bias.grad"));
}

TEST(PlannedGroupsOfAGradient, ProductsOfAttentionEndWithWhatFollowsThem) {
  const auto stored = [](int64_t width) {
    const auto input = [&](const char* name) { return placeholder({1, 8, 512, width}, f16, name); };
    const Tensor q = input("q"), k = input("k"), v = input("v");
    return stored_by_gradient(ops::scaled_dot_product_attention(q, k, v), {q, k, v});
  };
  // Of wide heads the gradient of the scores is made of a product and of numbers of its rows, and is
  // stored in f16.
  const std::vector<std::string> wide = stored(256);
  EXPECT_THAT(wide, ::testing::Contains("matmul.grad.rounded"));
  EXPECT_THAT(wide, ::testing::Not(::testing::Contains("attention_scores.grad")));
  EXPECT_EQ(wide.size(), 10U);
  // Of others neither scores nor their gradient are stored.
  EXPECT_THAT(stored(64),
              ::testing::UnorderedElementsAre("softmax_max", "softmax_scale", "matmul",
                                              "softmax_sum.grad", "q.grad", "k.grad", "v.grad"));
}

TEST(PlannedGroupsOfAGradient, WhatChoosesByDataIsStoredBeforeTheGradientOfAFilterOnACpu) {
  const Tensor image = placeholder({8, 1, 28, 28}, f32, "image"),
               filter = placeholder({6, 1, 5, 5}, f32, "filter");
  const Tensor y =
      ops::max_pool(ops::relu(ops::conv2d(image, filter, {.padding = {2}})), {.kernel = {2, 2}});
  EXPECT_THAT(stored_by_gradient(y, {filter}, "llvm -mcpu=skylake-avx512 -threads=1"),
              ::testing::Contains("conv2d.grad"));
}

}  // namespace
}  // namespace heddle::testing
