// How often expressions load what other stages store.
#include "schedule/groups/load_counts.h"

#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <thread>

#include "heddle/dsl/tensor.h"

namespace heddle::testing {
namespace {

TEST(LoadCounts, EachPathToASharedNodeCounts) {
  const Tensor x = placeholder({8}, f32, "x");
  const Tensor a = compute({8}, [&](Axis i) { return x(i) + 1; }, "a");
  const Tensor b = compute({8}, [&](Axis i) { return x(i) * 2; }, "b");
  const Tensor reader = compute(
      {8},
      [&](Axis i) {
        Expr sum = a(i) + b(i);
        const Expr once = sum;
        for (int n = 0; n < 40; ++n) sum = sum * sum;  // 2^40 paths to the node of the first sum
        return sum + once;
      },
      "reader");
  const LoadCounts loads = count_loads(reader.op()->bodies());
  ASSERT_EQ(loads.size(), 2U);
  for (const Tensor& read : {a, b})
    EXPECT_EQ(loads.at(read.op()), 1099511627776.0 + 1) << read.name();
}

TEST(LoadCounts, EveryBodyCounts) {
  const Tensor x = placeholder({8}, f32, "x");
  const Tensor a = compute({8}, [&](Axis i) { return x(i) + 1; }, "a");
  const Tensor reader = compute({8}, [&](Axis i) { return a(i) + a(7 - i) * 2; }, "reader");
  std::vector<Expr> bodies = reader.op()->bodies();
  EXPECT_EQ(count_loads(bodies).at(a.op()), 2);
  bodies.push_back(bodies[0]);
  EXPECT_EQ(count_loads(bodies).at(a.op()), 4);
}

// Tasks of a network are made by threads that share expressions.
TEST(LoadCounts, OtherThreadsMayHoldTheExpressionsAndLetThemGo) {
  const Tensor x = placeholder({8}, f32, "x");
  const Tensor a = compute({8}, [&](Axis i) { return x(i) + 1; }, "a");
  const Tensor reader = compute({8}, [&](Axis i) { return (a(i) + 1) * 2; }, "reader");
  const std::vector<Expr>& bodies = reader.op()->bodies();
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) const Expr held = bodies[0].as<Binary>()->a;
  });
  int wrong = 0;
  try {
    for (int n = 0; n < 20000; ++n) wrong += count_loads(bodies).at(a.op()) != 1;
  } catch (const std::out_of_range&) {
    ++wrong;
  }
  over = true;
  other.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace heddle::testing
