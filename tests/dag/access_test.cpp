#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "dag/declarations.h"

namespace heddle::dag_test {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

/// The one read of a stage of shape [4, 6, 8] at `indices(i, j, k)` of a large tensor.
template <class F>
Access read_of(int rank, F indices, std::vector<Axis> reduce = {}) {
  Tensor t = placeholder(Shape(static_cast<size_t>(rank), Expr(100)), f32, "T");
  std::vector<Axis> axes{Axis("i", 4, AxisKind::Spatial), Axis("j", 6, AxisKind::Spatial),
                         Axis("k", 8, AxisKind::Spatial)};
  const std::vector<Expr> bodies{t.at(indices(axes[0], axes[1], axes[2]))};
  std::vector<Access> reads = internal::analyze_reads(bodies, axes, reduce);
  EXPECT_EQ(reads.size(), 1u);
  return reads.front();
}
using Indices = std::vector<Expr>;

TEST(AccessPattern, FromSimplestToMostGeneral) {
  const auto pattern = [](int rank, auto f) { return read_of(rank, f).pattern; };
  EXPECT_EQ(pattern(3, [](Axis i, Axis j, Axis k) { return Indices{i, j, k}; }),
            AccessPattern::Elementwise);
  EXPECT_EQ(pattern(2, [](Axis i, Axis, Axis k) { return Indices{i, k}; }),
            AccessPattern::Broadcast);
  EXPECT_EQ(pattern(3, [](Axis i, Axis, Axis k) { return Indices{i, 0, k}; }),
            AccessPattern::Broadcast);
  EXPECT_EQ(pattern(0, [](Axis, Axis, Axis) { return Indices{}; }), AccessPattern::Broadcast);
  EXPECT_EQ(pattern(3, [](Axis i, Axis j, Axis k) { return Indices{k, i, j}; }),
            AccessPattern::Injective);
  EXPECT_EQ(pattern(3, [](Axis i, Axis j, Axis k) { return Indices{i, j + 3, 7 - Expr(k)}; }),
            AccessPattern::Injective);
  EXPECT_EQ(pattern(3, [](Axis i, Axis j, Axis k) { return Indices{i, j * 2, k}; }),
            AccessPattern::Injective);
  EXPECT_EQ(pattern(1, [](Axis i, Axis, Axis k) { return Indices{i * 8 + k}; }),
            AccessPattern::Affine);
  EXPECT_EQ(pattern(2, [](Axis i, Axis, Axis) { return Indices{i, i}; }), AccessPattern::Affine);
  EXPECT_EQ(pattern(1, [](Axis i, Axis, Axis) { return Indices{floordiv(i, 2)}; }),
            AccessPattern::Opaque);
}

TEST(AccessPattern, AnAxisOfExtentOneMayBeReadAtZero) {
  Tensor t = placeholder({1, 8}, f32, "T");
  std::vector<Axis> axes{Axis("i", 1, AxisKind::Spatial), Axis("j", 8, AxisKind::Spatial)};
  const auto reads = internal::analyze_reads({t(0, axes[1])}, axes, {});
  EXPECT_EQ(reads[0].pattern, AccessPattern::Elementwise);
  EXPECT_THAT(reads[0].reuse_axes, IsEmpty());  // extent 1: nothing is reused
}

TEST(AccessPattern, RangesResolveWhatIsNotAffineAsWritten) {
  Axis r("r", 4, AxisKind::Reduce);
  const Access read =
      read_of(1, [&](Axis i, Axis, Axis) { return Indices{floordiv(i * 4 + r, 4)}; }, {r});
  EXPECT_EQ(read.pattern, AccessPattern::Broadcast);
  EXPECT_FALSE(read.depends_on(r));
}

TEST(AccessReuse, AxesThatNoIndexUses) {
  const Access read = read_of(1, [](Axis, Axis j, Axis) { return Indices{j}; });
  EXPECT_THAT(read.reuse_axes, ElementsAre(0, 2));
  EXPECT_THAT(read.window_axes, IsEmpty());
  const Access cancelled = read_of(1, [](Axis i, Axis j, Axis) { return Indices{j + i - i}; });
  EXPECT_THAT(cancelled.reuse_axes, ElementsAre(0, 2));
}

TEST(AccessReuse, Windows) {
  const auto windows = [](int64_t stride, int64_t dilation, int64_t extent) {
    Axis r("r", extent, AxisKind::Reduce);
    return read_of(3,
                   [&](Axis i, Axis j, Axis k) { return Indices{i, j * stride + r * dilation, k}; },
                   {r})
        .window_axes;
  };
  EXPECT_THAT(windows(1, 1, 3), ElementsAre(1));
  EXPECT_THAT(windows(2, 1, 3), ElementsAre(1));
  EXPECT_THAT(windows(3, 1, 3), IsEmpty());  // windows side by side
  EXPECT_THAT(windows(1, 1, 1), IsEmpty());
  EXPECT_THAT(windows(1, 2, 3), ElementsAre(1));  // dilated: every second point
  EXPECT_THAT(windows(1, 6, 3), IsEmpty());       // dilated beyond the extent of j

  Axis r("r", 3, AxisKind::Reduce);
  // Diagonals: what looks like a window reads different elements.
  EXPECT_THAT(read_of(2, [&](Axis, Axis j, Axis) { return Indices{j + r, r}; }, {r}).window_axes,
              IsEmpty());
  EXPECT_THAT(read_of(1, [&](Axis i, Axis j, Axis) { return Indices{i + j}; }).window_axes,
              ElementsAre(0, 1));
  EXPECT_THAT(read_of(1, [&](Axis i, Axis j, Axis) { return Indices{i * 6 + j}; }).window_axes,
              IsEmpty());
}

TEST(AccessReads, DistinctByTensorAndIndices) {
  Tensor a = placeholder({8, 8}, f32, "A"), idx = placeholder({8}, i32, "idx");
  std::vector<Axis> axes{Axis("i", 8, AxisKind::Spatial), Axis("j", 8, AxisKind::Spatial)};
  const Axis &i = axes[0], &j = axes[1];
  const Expr gathered = a(idx(i), j);
  const auto reads = internal::analyze_reads({a(i, j) * a(i, j) + a(j, i) + gathered}, axes, {});
  ASSERT_EQ(reads.size(), 4u);
  EXPECT_EQ(reads[0].pattern, AccessPattern::Elementwise);
  EXPECT_EQ(reads[1].pattern, AccessPattern::Injective);
  EXPECT_EQ(reads[2].pattern, AccessPattern::Opaque);
  EXPECT_TRUE(reads[2].tensor.same_as(a));
  EXPECT_TRUE(reads[2].depends_on(i));  // through idx
  EXPECT_TRUE(reads[3].tensor.same_as(idx));
  EXPECT_EQ(reads[3].pattern, AccessPattern::Broadcast);
}

TEST(AccessReads, GuardedOnlyIfEveryOccurrenceIs) {
  Tensor a = placeholder({8}, f32, "A"), b = placeholder({8}, f32, "B"),
         c = placeholder({8}, f32, "C");
  std::vector<Axis> axes{Axis("i", 8, AxisKind::Spatial)};
  const Axis& i = axes[0];
  const Expr twice = b(i);
  const auto reads =
      internal::analyze_reads({select(c(i) > 0.f, a(i) + twice, 0.f) * twice}, axes, {});
  ASSERT_EQ(reads.size(), 3u);
  EXPECT_FALSE(reads[0].guarded);  // the condition
  EXPECT_TRUE(reads[1].guarded);
  EXPECT_FALSE(reads[2].guarded);
}

TEST(AccessReads, TuplesShareTheirReads) {
  Tensor a = placeholder({4, 8}, f32, "A");
  Axis k = reduce_axis(8, "k");
  Reducer minmax = reducer("minmax", {f32, f32}, {highest_value(f32), lowest_value(f32)},
                           [](const std::vector<Expr>& x, const std::vector<Expr>& y) {
                             return std::vector<Expr>{min(x[0], y[0]), max(x[1], y[1])};
                           });
  const auto t = compute_all({4}, [&](Axis i) { return minmax({a(i, k), a(i, k)}, {k}); });
  EXPECT_EQ(
      internal::analyze_reads(t[0].op()->bodies(), t[0].op()->axes(), t[0].op()->reduce_axes())
          .size(),
      1u);
}

}  // namespace
}  // namespace heddle::dag_test
