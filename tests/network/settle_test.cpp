// Networks whose unsure choices are settled in real calls.
#include <unistd.h>

#include <filesystem>

#include "driver/second_choice.h"
#include "heddle/dag/alternatives.h"
#include "heddle/driver/build_multi.h"
#include "heddle/network/plan.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

class Settle : public ::testing::Test {
 protected:
  void TearDown() override { std::filesystem::remove_all(folder_); }

  /// A plan that has the naive schedule of every node, on this proof.
  NetworkPlan plan(PlanProof proof) const {
    TuneReport report;
    for (const Schedule& s : network_.naive_schedules()) {
      TaskResult result{.name = "node", .config = {}, .schedule = s};
      result.improved = true;
      result.rounds = 9;
      report.tasks.push_back(std::move(result));
    }
    NetworkPlan made = plan_of(network_, report);
    for (PlannedNode& n : made.nodes) n.proof = proof;
    return made;
  }

  /// The second variant takes `second` of the time of the first.
  SettleOptions options(double second) {
    SettleOptions o{.store = store_};
    o.time = [this, second](size_t, size_t variant, FunctionRef<void()> run) {
      ++timed_;
      run();
      return variant == 1 ? second * 1e-6 : 1e-6;
    };
    return o;
  }

  void expect_right_calls(const NetworkKernel& kernel, int times) {
    const std::vector<NDArray> arrays = arrays_for(args_);
    for (int n = 0; n < times; ++n) {
      arrays.back().fill(77);
      kernel.call(arrays);
      ASSERT_EQ(differs_from_interpreter({y_}, args_, arrays), "") << "call " << n;
    }
  }

  static constexpr int kCalls = 24;
  const std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("heddle_settle_" + std::to_string(::getpid()));
  const std::shared_ptr<const PickStore> store_ = std::make_shared<PickStore>(folder_.string());
  const Tensor y_ = linear(ops::relu(linear(placeholder({4, 24}, f32, "x"), 32)), 12);
  const std::vector<Tensor> args_ = args_of({y_});
  const Network network_{{y_}};
  int timed_ = 0;
};

TEST_F(Settle, WhatAPlanDidNotRaceIsSettledAndRemembered) {
  const Network planned = network_.with_plan(plan(PlanProof::Trials));
  const NetworkKernel kernel = planned.build_settling(args_, options(0.5));
  ASSERT_EQ(kernel.picks().size(), planned.nodes().size());
  for (const PickRow& row : kernel.picks()) EXPECT_EQ(row.reason, PickReason::Static);
  expect_right_calls(kernel, kCalls + 2);
  EXPECT_EQ(timed_, kCalls * static_cast<int>(planned.nodes().size()));
  for (const PickRow& row : kernel.picks()) {
    EXPECT_EQ(row.reason, PickReason::Measured);
    EXPECT_EQ(row.picked, "rule");
    EXPECT_EQ(row.variants[0].seconds.size(), 10U);
  }
  EXPECT_EQ(store_->all().size(), planned.tasks().size());
  // Another kernel, as of a later process, finds them.
  timed_ = 0;
  const NetworkKernel later = planned.build_settling(args_, options(2));
  for (const PickRow& row : later.picks()) {
    EXPECT_EQ(row.reason, PickReason::Remembered);
    EXPECT_EQ(row.picked, "rule");
  }
  expect_right_calls(later, 2);
  EXPECT_EQ(timed_, 0);
}

TEST_F(Settle, PicksOfAnotherBuildAreSettledAnew) {
  const Network planned = network_.with_plan(plan(PlanProof::None));
  expect_right_calls(planned.build_settling(args_, options(0.5)), kCalls);
  for (PickRow row : store_->all()) {
    row.build = "another";
    store_->remember(row);
  }
  const NetworkKernel kernel = planned.build_settling(args_, options(2));
  expect_right_calls(kernel, kCalls);
  for (const PickRow& row : kernel.picks()) {
    EXPECT_EQ(row.reason, PickReason::Measured);
    EXPECT_EQ(row.picked, "plan");
  }
}

TEST_F(Settle, WhatARaceProvedOnThisMachineIsSure) {
  EXPECT_TRUE(network_.with_plan(plan(PlanProof::Race)).build_settling(args_).picks().empty());
  NetworkPlan elsewhere = plan(PlanProof::Race);
  for (PlannedNode& n : elsewhere.nodes) n.machine = "another";
  EXPECT_FALSE(network_.with_plan(elsewhere).build_settling(args_, options(1)).picks().empty());
}

/// Convolutions of more and more channels, of which the estimates prefer one graph, then another.
TEST_F(Settle, GraphsWithinATenthByEstimateAreUnsure) {
  const Target target = Target::parse("llvm -mcpu=znver3 -threads=1");
  int sure = 0, unsure = 0;
  for (const int64_t channels : {4, 8, 12, 16, 24, 32, 48, 64, 96, 128}) {
    const Tensor x = placeholder({1, channels, 14, 14}, f32, "x");
    const ComputeDag dag({ops::conv2d(x, weights({channels, channels, 3, 3}), {.padding = {1}})});
    const Template t = make_template_of_alternatives(dag, target, {});
    const std::optional<Schedule> second = driver::second_choice(t);
    const auto speedup = [&](const std::string& name) {
      double of_it = name.empty() ? 1 : 0;
      for (const Alternative& a : alternatives_of(dag, t.target(), {}))
        if (a.legal() && a.name == name) of_it = a.speedup;
      return of_it;
    };
    const std::string chosen = t.static_schedule().dag().alternative();
    (second ? unsure : sure) += 1;
    if (!second) continue;
    EXPECT_NE(second->dag().alternative(), chosen);
    EXPECT_GE(speedup(second->dag().alternative()), 0.9 * speedup(chosen)) << channels;
  }
  EXPECT_GT(sure, 0);
  EXPECT_GT(unsure, 0);
}

TEST_F(Settle, NetworksOverRangesAreRefused) {
  const Dim rows = dim("rows", 1, 8);
  const Tensor x = placeholder({rows, 4}, f32, "x"), z = ops::relu(x);
  EXPECT_THAT(message_of([&] { (void)Network({z}).build_settling({x, z}); }),
              ::testing::HasSubstr("settled for one size"));
}

TEST_F(Settle, StatesAreUpdatedOnceByEachCall) {
  const Tensor state = placeholder({16, 8}, f32, "state"), x = placeholder({16, 8}, f32, "x");
  const Tensor next = ops::add(state, x);
  const Network network({}, Target::host(), {}, {}, {{state, next}});
  TuneReport report;
  TaskResult result{.name = "node", .config = {}, .schedule = network.naive_schedules()[0]};
  result.improved = true;
  report.tasks.push_back(result);
  NetworkPlan made = plan_of(network, report);
  made.nodes[0].proof = PlanProof::None;
  const NetworkKernel kernel = network.with_plan(made).build_settling({state, x}, options(0.5));
  ASSERT_EQ(kernel.picks().size(), 1U);
  const NDArray sums = NDArray::zeros({16, 8}, f32), ones = NDArray::full({16, 8}, f32, 1);
  for (int n = 1; n <= kCalls + 2; ++n) {
    kernel.call(std::vector{sums, ones});
    ASSERT_EQ(sums.get(127), n);
  }
  EXPECT_EQ(kernel.picks()[0].picked, "rule");
}

}  // namespace
}  // namespace heddle::testing
