// Debug mode: kernels that check indices which are data.
#include <gmock/gmock.h>

#include "driver/driver_testing.h"
#include "driver/index_checks.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/emulator.h"
#include "heddle/ops/scatter.h"
#include "heddle/ops/transform.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

/// What a checked kernel of `y` says of these arrays, and whether the kernel without checks clamps.
std::string checked(const Tensor& y, const std::vector<Tensor>& inputs,
                    const std::vector<NDArray>& values) {
  std::vector<Tensor> args = inputs;
  args.push_back(y);
  std::vector<NDArray> arrays = values;
  arrays.push_back(NDArray::zeros(y.extents(), y.dtype()));
  const Schedule s = create_schedule({y});
  EXPECT_EQ(complaint(build(s, args), arrays), "");
  std::vector<TensorValue> known;
  for (size_t i = 0; i < inputs.size(); ++i) known.push_back({inputs[i], values[i]});
  const NDArray want = interpret({y}, known)[0];
  for (int64_t i = 0; i < want.size(); ++i) EXPECT_EQ(arrays.back().get(i), want.get(i));
  return complaint(build(s, args, {.name = "k", .check_indices = true}), arrays);
}

TEST(CheckIndices, NamesKernelStageTableIndexAndExtent) {
  const Tensor x = placeholder({8, 3}, f32, "table"), i = placeholder({2, 2}, i64, "i");
  const Tensor y = ops::gather(x, i, 0);
  const NDArray table = NDArray::random({8, 3}, f32, 1);
  const auto at = [&](const std::vector<int64_t>& indices) {
    return checked(y, {x, i}, {table, NDArray::from(indices, {2, 2})});
  };
  EXPECT_EQ(at({0, 7, -1, -8}), "");
  EXPECT_EQ(at({0, 7, 8, 1}),
            "kernel 'k': stage 'gather' reads 'table' at index 8, which is out of range: it has 8 "
            "positions");
  EXPECT_THAT(at({0, -9, 1, 1}), HasSubstr("at index -9,"));
}

TEST(CheckIndices, EveryKindOfGather) {
  const Tensor x = placeholder({4, 6}, f32, "x");
  const NDArray table = NDArray::random({4, 6}, f32, 1);
  const Tensor bytes = placeholder({3}, u8, "i");
  const auto of_bytes = [&](const Tensor& y, int64_t last) {
    const NDArray i = NDArray::zeros({3}, u8);
    i.set(2, static_cast<double>(last));
    return checked(y, {x, bytes}, {table, i});
  };
  EXPECT_EQ(of_bytes(ops::gather(x, bytes, 1), 5), "");
  EXPECT_THAT(of_bytes(ops::gather(x, bytes, 1), 6), HasSubstr("at index 6,"));
  EXPECT_EQ(of_bytes(ops::take(x, bytes), 23), "");
  EXPECT_THAT(of_bytes(ops::take(x, bytes), 24), HasSubstr("at index 24,"));
  const Tensor rows = placeholder({2, 2}, i32, "i");
  const auto of_rows = [&](const Tensor& y, const std::vector<int32_t>& indices) {
    return checked(y, {x, rows}, {table, NDArray::from(indices, {2, 2})});
  };
  EXPECT_EQ(of_rows(ops::gather_nd(x, rows), {3, 5, 0, -6}), "");
  EXPECT_THAT(of_rows(ops::gather_nd(x, rows), {3, 5, 4, 0}), HasSubstr("at index 4,"));
  EXPECT_THAT(of_rows(ops::gather_elements(x, rows, 1), {3, 5, 0, -7}), HasSubstr("at index -7,"));
}

// Indices that the kernel computes, and a gather that is read only where a condition holds.
TEST(CheckIndices, OfStagesInsideTheKernelAndUnderConditions) {
  const Tensor x = placeholder({4}, f32, "x"), i = placeholder({5}, i64, "i");
  const Tensor next = compute({5}, [&](Axis a) { return i(a) + 1; }, "next");
  const NDArray table = NDArray::random({4}, f32, 1);
  const auto of = [&](const Tensor& y, const std::vector<int64_t>& indices) {
    return checked(y, {x, i}, {table, NDArray::from(indices, {5})});
  };
  EXPECT_EQ(of(ops::relu(ops::gather(x, next)), {0, 1, 2, 0, 0}), "");
  EXPECT_THAT(of(ops::relu(ops::gather(x, next)), {0, 1, 2, 3, 0}), HasSubstr("at index 4,"));
  const Tensor guarded = compute(
      {7},
      [&](Axis a) {
        return select(a < 5, x(max(min(i(min(Expr(a), Expr(4))), Expr(3)), Expr(0))), 0.f);
      },
      "guarded");
  EXPECT_EQ(of(guarded, {0, 1, 2, 3, 3}), "");
  EXPECT_THAT(of(guarded, {0, 1, 2, 3, 4}), HasSubstr("stage 'guarded'"));
}

TEST(CheckIndices, WithoutSuchReadsNothingIsAdded) {
  const Tensor x = placeholder({4}, f32, "x"), y = ops::relu(x);
  const std::vector<Tensor> args{x, y};
  EXPECT_FALSE(driver::index_checks(create_schedule({y}), args, {.check_indices = true}));
}

}  // namespace
}  // namespace heddle::testing
