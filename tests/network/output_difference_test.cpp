// Which differences of a network's outputs rounding explains.
#include "network/run/output_difference.h"

#include <gtest/gtest.h>

#include "heddle/dsl/update.h"
#include "heddle/ops/ops.h"
#include "network/race/timed_network.h"

namespace heddle::network {
namespace {

/// The differences of outputs 100 and `got` in f32, of a network that computes `type` before.
std::string difference(DataType type, double got) {
  const Tensor x = placeholder({4}, type);
  const Network network({ops::cast(ops::relu(x), f32)});
  const std::vector<NDArray> want{NDArray::full({4}, f32, 100)}, made{NDArray::full({4}, f32, got)};
  return output_difference(network.outputs(), made, want);
}

TEST(OutputDifference, SeesWhatCallsUpdate) {
  const Tensor state = placeholder({4, 4}, f32, "state"), x = placeholder({2, 4}, f32, "x");
  const auto updated_by = [&](const Tensor& rows) {
    return Network({}, Target::host(), {}, {}, {{state, update(state, rows, 1)}});
  };
  const Network sums = updated_by(ops::add(x, x)), squares = updated_by(ops::mul(x, x));
  const std::vector<Tensor> args{state, x};
  const std::vector<NDArray> arrays = random_arrays(args);
  const NDArray before = arrays[0].copy();
  const auto timed = [&](const Network& network) {
    return TimedNetwork(network, network.static_schedules(), args, arrays).outputs();
  };
  const std::vector<NDArray> want = timed(sums);
  ASSERT_EQ(want.size(), 1u);
  // One network does not change the arrays of the next.
  EXPECT_TRUE(allclose(arrays[0], before, 0, 0));
  EXPECT_EQ(output_difference(sums.outputs(), timed(sums), want), "");
  EXPECT_NE(output_difference(sums.outputs(), timed(squares), want), "");
}

TEST(OutputDifference, AllowsForTheShortestTypeOnTheWay) {
  EXPECT_EQ(difference(f16, 101), "");
  EXPECT_NE(difference(f16, 110), "");
  EXPECT_EQ(difference(bf16, 108), "");
  EXPECT_EQ(difference(f32, 100.01), "");
  EXPECT_NE(difference(f32, 101), "");
}

}  // namespace
}  // namespace heddle::network
