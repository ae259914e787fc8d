// What is chosen about networks with loops: costs, and choices about the graph.
#include "network/cut/choice_costs.h"
#include "network/cut/memory/node_costs.h"
#include "network/loops_testing.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

network::PlanCost cost(const std::vector<Tensor>& outputs, const Updates& updates) {
  return network::cost_of(
      network::cut_network(ComputeDag(outputs), Target::host(), PassOptions(), updates),
      Target::host());
}

/// An attention, whose products of `x` may be one, and a recurrent layer behind it.
struct Both {
  Tensor x = placeholder({1, 8, 16}, f32, "x"), y;
  std::vector<Tensor> unrolled;
  Updates updates;
  Both() {
    const Tensor rows = ops::reshape(attention(x), {8, 1, 16});
    const auto weight = [](uint64_t seed) {
      return constant(NDArray::random({64, 16}, f32, seed, -0.3, 0.3), "w");
    };
    for (const bool looped : {true, false}) {
      Recurrence loop("layer", Expr(8));
      const Tensor all =
          ops::lstm(rows, {weight(1), weight(2)}, {.loop = looped ? &loop : nullptr}).all;
      (looped ? y : unrolled.emplace_back()) = ops::relu(all);
      if (looped) updates = Updates({}, {loop.repeat()});
    }
  }
  Network network(const PassOptions& passes = {}) const {
    return Network({y}, Target::host(), {}, passes, updates);
  }
};

TEST(LoopChoices, CostsCountAllTurns) {
  const Stacked stacked;
  const network::PlanCost looped = cost(stacked.outputs, stacked.updates),
                          unrolled = cost(stacked.unrolled, {});
  EXPECT_NEAR(looped.flops / unrolled.flops, 1, 0.05);
  EXPECT_GT(looped.seconds / unrolled.seconds, 0.5);
  EXPECT_LT(looped.seconds / unrolled.seconds, 2);
  EXPECT_GE(looped.nodes, 80);
}

TEST(LoopChoices, WhatChoicesCostIsThatOfTheNetworkWithThem) {
  const Both both;
  const Network network = both.network();
  const ComputeDag declared(network.outputs());
  const network::CutNetwork cut =
      network::cut_network(declared, Target::host(), PassOptions(), network.updates());
  const std::vector<network::ChoiceCost> costs =
      network::choice_costs(cut, declared, Target::host(), PassOptions(), network.updates());
  ASSERT_FALSE(costs.empty());
  for (const network::ChoiceCost& c : costs) {
    PassOptions flipped;
    flipped.choices[c.choice.name] = !c.choice.on;
    const network::CutNetwork made =
        network::cut_network(declared, Target::host(), flipped, network.updates());
    ASSERT_TRUE(c.flipped.has_value());
    EXPECT_NEAR(c.flipped->seconds / network::cost_of(made, Target::host()).seconds, 1, 1e-6)
        << c.choice.name;
  }
}

// What is alike in all turns is computed before them.
TEST(LoopChoices, TurnsComputeWhatDiffersBetweenThem) {
  const Tensor x = placeholder({40, 8}, f32, "x"), scale = placeholder({8}, f32, "scale");
  Recurrence loop("sums", Expr(40));
  const Tensor before = loop.state(ops::full({8}, 0, f32)), row = loop.row(x);
  const Tensor factor = compute({8}, [&](Axis i) { return exp(scale(i)); }, "factor");
  const Tensor sum =
      compute({8}, [&](Axis i) { return tanh(before(i) * factor(i) + row(i)); }, "sum");
  loop.next(before, sum);
  const Tensor y = ops::relu(loop.all(sum));
  const Network network({y}, Target::host(), {}, {}, Updates({}, {loop.repeat()}));
  int exps = 0;
  for (const TuneTask& task : network.tasks()) {
    if (task.name.find("factor") == std::string::npos) continue;
    ++exps;
    EXPECT_EQ(task.weight, 1) << task.name;
  }
  EXPECT_EQ(exps, 1) << network.to_text();
  const NetworkKernel kernel = network.build({x, scale, y});
  const NDArray xs = NDArray::random({40, 8}, f32, 1), scales = NDArray::random({8}, f32, 2),
                ys = NDArray::zeros({40, 8}, f32);
  kernel(xs, scales, ys);
  for (int64_t i = 0; i < 8; ++i) {
    float want = 0;
    for (int64_t t = 0; t < 40; ++t) {
      want = std::tanh(want * std::exp(scales.data<float>()[i]) + xs.data<float>()[8 * t + i]);
      EXPECT_NEAR(ys.data<float>()[8 * t + i], std::max(want, 0.0F), 1e-4);
    }
  }
}

TEST(LoopChoices, AreTriedOnTheWholeNetwork) {
  const Both both;
  const TuneClock clock;
  const PassChoice choice = choose_passes(both.network(), 6, clock);
  EXPECT_TRUE(choice.times.problems.empty()) << choice.times.problems[0];
  EXPECT_THAT(choice.times.verdict, ::testing::AnyOf(RaceResult::Faster, RaceResult::NotProven));
  ASSERT_FALSE(choice.trials.empty());
  EXPECT_TRUE(std::any_of(choice.trials.begin(), choice.trials.end(),
                          [](const ChoiceTrial& t) { return t.before > 0; }));
  // What is returned computes the same.
  std::vector<Tensor> args = ComputeDag(both.unrolled).placeholders();
  std::erase_if(args, [](const Tensor& t) { return t.op()->data() != nullptr; });
  args.push_back(both.y);
  const NetworkKernel kernel = both.network(choice.options).build(args);
  std::vector<NDArray> arrays;
  std::vector<TensorValue> values;
  for (const Tensor& t : args)
    arrays.push_back(NDArray::random(t.extents(), t.dtype(), arrays.size() + 1, -0.3, 0.3));
  for (size_t i = 0; i + 1 < args.size(); ++i) values.push_back({args[i], arrays[i]});
  kernel.call(arrays);
  EXPECT_TRUE(allclose(arrays.back(), interpret(both.unrolled, values)[0], 1e-4, 1e-5));
}

}  // namespace
}  // namespace heddle::testing
