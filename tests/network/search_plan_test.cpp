// The search for a plan of fusion: what it takes costs less than the plan of the rules, computes the
// same, and is what the network obeys.
#include "network/cut/choice_costs.h"
#include "network/cut/cut_network.h"
#include "network/drawn_networks.h"
#include "network/fusion/fusion_cost.h"
#include "network/fusion/plan_fusion.h"
#include "network/fusion/settle_plan.h"

namespace heddle::testing {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Key;
using ::testing::Not;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

network::PlanCost cost_of_rules(const network::CutNetwork& cut, const Target& target) {
  const ComputeDag& dag = cut.plan.dag();
  network::ChoiceList choices{PassOptions()};
  network::FusionPlan plan = network::plan_fusion(dag, plan_groups(dag, &target, Chains::Expected),
                                                  target, network::plan_concats(dag), choices);
  (void)network::settle(plan, target);
  return network::cost_of(plan, target);
}

/// The searched plan costs less than that of the rules where it has other answers.
std::string not_cheaper(const std::vector<Tensor>& outputs, const Target& target) {
  const network::CutNetwork cut = network::cut_network(ComputeDag(outputs), target, {});
  const double searched = network::cost_of(cut.plan, target).seconds,
               rules = cost_of_rules(cut, target).seconds;
  if (cut.searched.empty() ? searched == rules : searched < rules) return "";
  return "the plan of the search takes " + std::to_string(searched * 1e6) + " us, that of rules " +
         std::to_string(rules * 1e6) + " us, with " + std::to_string(cut.searched.size()) +
         " other answers";
}

/// Who flips one choice changes no other one.
std::string changes_others(const std::vector<Tensor>& outputs, const Target& target) {
  const ComputeDag declared(outputs);
  const network::CutNetwork cut = network::cut_network(declared, target, {});
  std::string text;
  for (const NetworkChoice& c : cut.choices.list()) {
    if (!network::is_of_cut(*network::kind_of(c.name))) continue;
    const network::CutNetwork other =
        network::cut_network(declared, target, {.choices = {{c.name, !c.on}}});
    if (other.searched != cut.searched) text += c.name + " changes what the search finds\n";
  }
  return text;
}

class SearchedPlan : public ::testing::TestWithParam<DataType> {};

TEST_P(SearchedPlan, CostsNoMoreThanThatOfTheRules) {
  expect_nothing_wrong({.type = GetParam()}, not_cheaper);
}

TEST_P(SearchedPlan, OfLargeNetworksCostsNoMore) {
  expect_nothing_wrong({.type = GetParam(), .count = 4, .sizes = Sizes::OfNetworks}, not_cheaper);
}

TEST_P(SearchedPlan, DoesNotDependOnSettings) {
  expect_nothing_wrong({.type = GetParam(), .count = 3}, changes_others);
}

INSTANTIATE_TEST_SUITE_P(Types, SearchedPlan, ::testing::Values(f32, f16),
                         [](const auto& info) { return to_string(info.param); });

Target one_thread() {
  Target target = Target::host();
  target.cores = 1;
  return target;
}

/// "" where the network for one thread computes what the interpreter does.
std::string wrong_on_one_thread(const std::vector<Tensor>& outputs) {
  const Network net(outputs, one_thread());
  const std::vector<Tensor> args = args_of(outputs);
  const std::vector<NDArray> arrays = arrays_for(args);
  net.build(args).call(arrays);
  return differs_from_interpreter(outputs, args, arrays);
}

TEST(SearchedPlan, ComputesWhatTheInterpreterDoes) {
  const int64_t first = number_from_env("HEDDLE_PROPERTY_SEED", 1),
                count = number_from_env("HEDDLE_PROPERTY_COUNT", 60);
  int searched = 0;
  for (int64_t seed = first; seed < first + count; ++seed) {
    Rng rng(static_cast<uint64_t>(seed));
    const std::vector<Tensor> outputs = TypedNetworkDrawer(rng, f32).run();
    if (network::cut_network(ComputeDag(outputs), one_thread(), {}).searched.empty()) continue;
    ++searched;
    EXPECT_EQ(wrong_on_one_thread(outputs), "") << "HEDDLE_PROPERTY_SEED=" << seed;
  }
  std::cout << searched << " of " << count << " networks have a plan that the search found\n";
}

Tensor conv(const Tensor& x, int64_t channels, int64_t window) {
  return ops::relu(
      ops::conv2d(x, weights({channels, x.extent(1), window, window}), {.padding = {window / 2}}));
}

/// Images after `units` units of a network that lets half of the channels pass and mixes both halves.
std::vector<Tensor> shuffled(int units, int64_t side, int64_t half) {
  const auto mixed = [&](const Tensor& a, const Tensor& b) {
    const Tensor all = ops::reshape(ops::concat({a, b}, 1), {1, 2, half, side, side});
    return ops::reshape(ops::transpose(all, {0, 2, 1, 3, 4}), {1, 2 * half, side, side});
  };
  const Tensor x = conv(placeholder({1, 16, side, side}, f32, "x"), half, 3),
               z = conv(placeholder({1, 16, side, side}, f32, "z"), half, 3);
  Tensor y = mixed(x, z);
  for (int n = 1; n < units; ++n) {
    const Tensor kept = ops::slice(y, {0, 0, 0, 0}, {1, half, side, side});
    y = mixed(kept, conv(ops::slice(y, {0, half, 0, 0}, {1, 2 * half, side, side}), half, 1));
  }
  return {conv(conv(y, half, 1), 16, 3)};
}

network::CutNetwork cut_for(const std::string& target, const std::vector<Tensor>& outputs) {
  return network::cut_network(ComputeDag(outputs), Target::parse(target), {});
}

TEST(SearchedPlan, TakesAConcatIntoTheProductsThatReadIt) {
  const std::vector<Tensor> outputs = shuffled(2, 28, 64);
  const network::CutNetwork cut = cut_for("llvm -mcpu=znver4 -threads=1", outputs);
  EXPECT_THAT(cut.searched, UnorderedElementsAre(Pair("fuse@concat:1x28x28x128", true)));
  // It is what the choice says without settings, and its edge has a cost the other way.
  const Target target = Target::parse("llvm -mcpu=znver4 -threads=1");
  int found = 0;
  for (const auto& [choice, flipped] :
       network::choice_costs(cut, ComputeDag(outputs), target, {})) {
    if (choice.name != "fuse@concat:1x28x28x128") continue;
    ++found;
    EXPECT_TRUE(choice.usual && choice.on);
    EXPECT_GT(flipped->seconds, network::cost_of(cut.plan, target).seconds);
  }
  EXPECT_EQ(found, 1);
  EXPECT_EQ(wrong_on_one_thread(shuffled(2, 9, 16)), "");
}

TEST(SearchedPlan, StoresConcatsThatReadManyOthers) {
  const network::CutNetwork cut = cut_for("llvm -mcpu=znver4 -threads=1", shuffled(6, 28, 64));
  const std::string between = "fuse@concat:1x128x28x28";
  EXPECT_THAT(cut.choices.list(), Contains(Field(&NetworkChoice::name, between)));
  EXPECT_THAT(cut.searched, Not(Contains(Key(between))));
}

TEST(SearchedPlan, JoinsProductsOnOneThread) {
  const Tensor x = conv(placeholder({1, 3, 7, 7}, f32, "x"), 8, 1);
  const Tensor y = ops::relu(ops::depthwise_conv2d(x, weights({8, 1, 3, 3}), {.padding = {1}}));
  const std::vector<Tensor> outputs{conv(y, 5, 3)};
  EXPECT_THAT(cut_for("llvm -mcpu=znver4 -threads=1", outputs).searched,
              Contains(Pair("fuse@conv2d:1x7x7x8", true)));
  EXPECT_EQ(wrong_on_one_thread(outputs), "");
}

TEST(SearchedPlan, IsThatOfTheRulesOnSeveralThreadsAndOnGpus) {
  EXPECT_THAT(cut_for("llvm -mcpu=znver4 -threads=16", shuffled(2, 28, 64)).searched, IsEmpty());
  EXPECT_THAT(cut_for("cuda -gpu=h100", shuffled(2, 28, 64)).searched, IsEmpty());
}

}  // namespace
}  // namespace heddle::testing
