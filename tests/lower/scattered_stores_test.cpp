// Scatters: each source is stored at the point that it names, whatever the number of points.
#include <algorithm>

#include "environment.h"
#include "heddle/dag/scatter.h"
#include "heddle/support/rng.h"
#include "lower/lower_testing.h"
#include "lower/passes.h"

namespace heddle::testing {
namespace {

/// A random scatter: some axes are named by data, which also names points that are not there.
struct Drawn {
  Tensor result;
  std::vector<int64_t> sources;
  int named = 0;
};

Expr reduced(int which, const Expr& e, const std::vector<Axis>& q) {
  switch (which) {
    case 0: return sum(e, q);
    case 1: return max(e, q);
    case 2: return min(e, q);
    default: return prod(e, q);
  }
}

Drawn draw(Rng& rng) {
  Drawn d;
  const int rank = static_cast<int>(rng.uniform_int(1, 3));
  const DataType type = rng.chance(0.5) ? f32 : i64;
  std::vector<int64_t> shape;
  for (int a = 0; a < rank; ++a)
    shape.push_back(a == rank - 1 && rng.chance(0.5) ? 16 : rng.uniform_int(2, 7));
  std::vector<bool> named(static_cast<size_t>(rank));
  named[static_cast<size_t>(rng.uniform_int(0, rank - 1))] = true;
  for (int a = 0; a < rank; ++a)
    named[static_cast<size_t>(a)] = named[static_cast<size_t>(a)] || rng.chance(0.3);
  for (int64_t n = rng.uniform_int(1, 2); n > 0; --n) d.sources.push_back(rng.uniform_int(2, 9));
  std::vector<Axis> q;
  for (const int64_t n : d.sources) q.push_back(reduce_axis(n, "q"));
  // Sources and places may differ from column to column.
  const bool by_column = rng.chance(0.4), guarded = rng.chance(0.3);
  const int which = static_cast<int>(rng.uniform_int(0, 3));
  std::vector<int64_t> whole = d.sources;
  for (int a = 0; a < rank; ++a)
    whole.push_back(named[static_cast<size_t>(a)] ? 1 : shape[static_cast<size_t>(a)]);
  const Tensor x = placeholder(whole, type, "x");
  std::vector<Tensor> at;
  for (int a = 0; a < rank; ++a)
    at.push_back(placeholder(by_column ? whole : d.sources, i64, "at" + std::to_string(a)));
  const Expr identity = which == 0   ? make_const(type, 0)
                        : which == 3 ? make_const(type, 1)
                        : which == 1 ? lowest_value(type)
                                     : highest_value(type);
  d.result = compute(
      shape,
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> own(q.begin(), q.end()), short_own = own;
        for (int a = 0; a < rank; ++a)
          own.push_back(named[static_cast<size_t>(a)] ? Expr(0) : Expr(i[static_cast<size_t>(a)]));
        Expr hit = guarded ? Expr(Expr(q[0]) < d.sources[0] - 1) : Expr();
        for (int a = 0; a < rank; ++a) {
          if (!named[static_cast<size_t>(a)]) continue;
          const int64_t n = shape[static_cast<size_t>(a)];
          const Expr place =
              floormod(at[static_cast<size_t>(a)].at(by_column ? own : short_own), n + 2) - 1;
          const Expr same = rng.chance(0.5) ? Expr(place == Expr(i[static_cast<size_t>(a)]))
                                            : Expr(Expr(i[static_cast<size_t>(a)]) == place);
          hit = hit.defined() ? Expr(hit && same) : same;
          ++d.named;
        }
        return reduced(which, select(hit, x.at(own), identity), q);
      },
      "scattered");
  return d;
}

/// Whether a source is combined with a point that no data names.
bool searches(const Stmt& s, const Buffer& result) {
  bool found = false;
  if (const Store* store = s.as<Store>(); store && store->buffer == result) {
    const bool updates = any_below(store->value, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      return load && load->buffer == result;
    });
    const bool to_data =
        std::any_of(store->indices.begin(), store->indices.end(), [](const Expr& i) {
          return any_below(i, [](const Expr& e) { return e.kind() == ExprKind::Load; });
        });
    return updates && !to_data;
  }
  (void)map_children(
      s,
      [&](const Stmt& c) {
        found |= searches(c, result);
        return c;
      },
      [](const Expr& e) { return e; });
  return found;
}

TEST(ScatteredStores, RandomScattersAreRightAndSearchNothing) {
  const int64_t count = number_from_env("HEDDLE_PROPERTY_COUNT", 60),
                seed = number_from_env("HEDDLE_PROPERTY_SEED", 1);
  for (int64_t n = seed; n < seed + count; ++n) {
    Rng rng(static_cast<uint64_t>(n));
    const Drawn d = draw(rng);
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
