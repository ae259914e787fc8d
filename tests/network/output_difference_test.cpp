// Which differences of a network's outputs rounding explains.
#include "network/run/output_difference.h"

#include <gtest/gtest.h>

#include "heddle/ops/ops.h"

namespace heddle::network {
namespace {

/// The differences of outputs 100 and `got` in f32, of a network that computes `type` before.
std::string difference(DataType type, double got) {
  const Tensor x = placeholder({4}, type);
  const Network network({ops::cast(ops::relu(x), f32)});
  const std::vector<NDArray> want{NDArray::full({4}, f32, 100)}, made{NDArray::full({4}, f32, got)};
  return output_difference(network.outputs(), made, want);
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
