// Scatters: each source is stored at the point that it names, whatever the number of points.
#include "environment.h"
#include "heddle/dag/scatter.h"
#include "lower/lower_testing.h"
#include "lower/passes.h"
#include "lower/random_scatter.h"

namespace heddle::testing {
namespace {

TEST(ScatteredStores, RandomScattersAreRightAndSearchNothing) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 60),
                seed = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t n = seed; n < seed + count; ++n) {
    Rng rng(static_cast<uint64_t>(n));
    const DrawnScatter d = draw_scatter(rng);
    const std::optional<ScatterInfo> info = find_scatter(*d.result.op());
    ASSERT_TRUE(info.has_value()) << "seed " << n;
    EXPECT_EQ(std::ssize(info->axes), d.named) << "seed " << n;
    const Schedule s = create_schedule({d.result});
    EXPECT_EQ(wrong_after(s), "") << "seed " << n;
    const LoweredProgram p = lower(s, all_args(s.dag()));
    EXPECT_FALSE(searches(p.main.body, p.main.args.back())) << "seed " << n << "\n"
                                                            << to_string(p.main);
    const Kernel kernel = build(s, all_args(s.dag()));
    std::vector<NDArray> arrays = call_arrays(s.dag());
    kernel.call(arrays);
    EXPECT_EQ(differs(s.dag(), arrays), "") << "seed " << n;
  }
}

TEST(ScatteredStores, AGradientOfAGatherStoresWhatWasRead) {
  const Tensor table = placeholder({50, 16}, f32, "table"), at = placeholder({7}, i64, "at"),
               by = placeholder({7, 16}, f32, "by");
  const Tensor d = gradient(ops::sum(ops::mul(ops::gather(table, at), by), {0, 1}), table);
  const Schedule s = create_schedule({d});
  LowerOptions options;
  options.keep_passes = true;
  const LoweredProgram p = lower(s, all_args(s.dag()), options);
  EXPECT_TRUE(searches(p.passes[0].main.body, p.main.args.back())) << to_string(p.passes[0].main);
  EXPECT_FALSE(searches(p.main.body, p.main.args.back())) << to_string(p.main);
  EXPECT_EQ(wrong_after(s), "");
}

// PyTorch's index_add of rows reaches ONNX and torch.compile as a scatter of elements whose places are repeated along the rows.
TEST(ScatteredStores, RepeatedPlacesHaveColumns) {
  const Tensor x = placeholder({9, 16}, f32, "x"), at = placeholder({1, 7}, i64, "at"),
               by = placeholder({7, 16}, f32, "by");
  const Tensor repeated = ops::broadcast_to(ops::transpose(at, {1, 0}), {7, 16});
  const Tensor y = ops::scatter_elements(x, repeated, by, 0, ops::ScatterReduction::Max);
  const Schedule s = create_schedule({y});
  std::optional<ScatterInfo> info;
  for (int stage = 0; stage < s.dag().size(); ++stage) {
    if (!info) info = find_scatter(s.dag().stage(stage));
  }
  ASSERT_TRUE(info.has_value());
  EXPECT_EQ(info->columns, std::vector<int>{1});
  EXPECT_EQ(wrong_after(s), "");
}

TEST(ScatteredStores, OtherReductionsStayAsTheyAre) {
  const Tensor x = placeholder({8}, f32, "x"), at = placeholder({8}, i64, "at");
  const auto found = [&](auto condition, const Expr& otherwise) {
    const Axis q = reduce_axis(8, "q");
    return find_scatter(
               *compute({6},
                        [&](Axis i) { return sum(select(condition(i, q), x(q), otherwise), q); })
                    .op())
        .has_value();
  };
  EXPECT_TRUE(found([&](Axis i, Axis q) { return at(q) == Expr(i); }, make_const(f32, 0)));
  EXPECT_FALSE(found([&](Axis i, Axis q) { return at(q) == Expr(i); }, make_const(f32, 1)));
  EXPECT_FALSE(found([&](Axis i, Axis q) { return at(q) <= Expr(i); }, make_const(f32, 0)));
  EXPECT_FALSE(
      found([&](Axis i, Axis q) { return at(i) == Expr(i) && at(q) == 3; }, make_const(f32, 0)));
  EXPECT_FALSE(found([&](Axis i, Axis q) { return at(q) == Expr(i) && at(i) == Expr(q); },
                     make_const(f32, 0)));
}

}  // namespace
}  // namespace heddle::testing
