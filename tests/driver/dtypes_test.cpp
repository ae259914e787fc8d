// Kernels of every element type, static and naive schedules.
#include "driver/driver_testing.h"

namespace heddle::testing {
namespace {

class DTypes : public ::testing::TestWithParam<DataType> {};

TEST_P(DTypes, ElementwiseWorkAndTransposesAreRight) {
  DataType t = GetParam();
  Tensor x = placeholder({13, 37}, t, "x"), y = placeholder({37}, t, "y");
  Tensor sum = t == boolean ? compute({13, 37}, [&](Axis i, Axis j) { return x(i, j) || y(j); })
                            : ops::add(x, y);
  for (const Tensor& out : {sum, ops::transpose(x, {1, 0}), ops::pad(x, {1, 2}, {2, 1})}) {
    EXPECT_EQ(wrong_when_run(create_schedule({out})), "") << out.name();
    EXPECT_EQ(wrong_when_run(naive_schedule({out})), "") << out.name();
  }
}

TEST_P(DTypes, ReductionsAndContractionsAreRight) {
  DataType t = GetParam();
  Tensor a = placeholder({17, 21}, t, "a"), b = placeholder({21, 19}, t, "b");
  // Rounding differs with the order of a sum; integers wrap and are exact.
  double tolerance = t == bf16 ? 0.1 : t == f16 ? 2e-2 : t.is_float() ? 1e-4 : 0;
  if (t == boolean) {
    EXPECT_EQ(wrong_when_run(create_schedule({ops::any(a, {1})})), "");
    EXPECT_EQ(wrong_when_run(create_schedule({ops::all(a, {0})})), "");
    return;
  }
  for (const Tensor& out :
       {ops::matmul(a, b), ops::sum(a, {1}), ops::max(a, {0}), ops::argmax(a, 1)}) {
    EXPECT_EQ(wrong_when_run(create_schedule({out}), {}, tolerance), "") << out.name();
    EXPECT_EQ(wrong_when_run(naive_schedule({out}), {}, tolerance), "") << out.name();
  }
}

INSTANTIATE_TEST_SUITE_P(All, DTypes,
                         ::testing::Values(f32, f64, f16, bf16, i8, u8, i16, i32, i64, boolean),
                         [](const auto& info) { return to_string(info.param); });

TEST(DTypes, CastsBetweenAllTypesAreRight) {
  for (DataType from : {f32, f16, bf16, i8, u8, i64, boolean}) {
    for (DataType to : {f32, f16, bf16, i8, u8, i64, boolean}) {
      if (to.is_uint() && from.is_float()) continue;  // negative numbers have no image there
      Tensor out = ops::cast(placeholder({41}, from, "x"), to);
      if (from == to) continue;
      EXPECT_EQ(wrong_when_run(create_schedule({out})), "")
          << to_string(from) << " to " << to_string(to);
    }
  }
}

}  // namespace
}  // namespace heddle::testing
