// The tolerance of checks.
#include "driver/tolerance.h"

#include "driver/driver_testing.h"
#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"

namespace heddle::testing {
namespace {

double allowed_at_zero(const Tensor& y) {
  return driver::rounding_tolerance(ComputeDag({y}), NDArray::full({4, 4}, y.dtype(), 1)).atol;
}

// A sum between two values of f16 is rounded either way, and becomes a difference of f32.
TEST(RoundingTolerance, KnowsOfShorterTypesWithin) {
  const Tensor a = placeholder({4, 8}, f16, "a"), b = placeholder({8, 4}, f16, "b");
  const Tensor short_product = ops::matmul(a, b);
  ASSERT_EQ(short_product.dtype(), f16);
  EXPECT_GE(allowed_at_zero(ops::cast(short_product, f32)), 0x1p-10);
  EXPECT_LT(allowed_at_zero(ops::matmul(ops::cast(a, f32), ops::cast(b, f32))), 0x1p-14);
}

TEST(RoundingTolerance, AllowsTheNeighboursOfEightBits) {
  const Tensor y = ops::cast(placeholder({4, 4}, f32, "x"), f8e4m3);
  const driver::Tolerance t =
      driver::rounding_tolerance(ComputeDag({y}), NDArray::full({4, 4}, f8e4m3, 1));
  EXPECT_GE(t.rtol, 1.0 / 8);
  EXPECT_LT(t.rtol, 1.0 / 2);
}

}  // namespace
}  // namespace heddle::testing
