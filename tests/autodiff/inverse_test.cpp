// Inverted index maps: every point that reads an element is found once, and nothing else is.
#include "autodiff/inverse.h"

#include <gtest/gtest.h>

#include <map>
#include <set>

#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/rng.h"

namespace heddle {
namespace {

using autodiff::Inverse;
using autodiff::invert;
using Point = std::vector<int64_t>;

int64_t value_of(const Expr& e, const std::vector<VarBinding>& at) {
  const Expr v = simplify(substitute(e, at));
  EXPECT_TRUE(as_int(v)) << to_string(v);
  return as_int(v) ? *as_int(v) : 0;
}

/// Calls `f` for all points below `extents`.
template <class F>
void for_all(const Point& extents, F f) {
  Point p(extents.size(), 0);
  for (;;) {
    f(p);
    size_t d = p.size();
    while (d > 0 && ++p[d - 1] == extents[d - 1]) p[--d] = 0;
    if (d == 0) return;
  }
}

Point extents_of(const Inverse& inverse) {
  Point extents;
  for (const autodiff::Loop& l : inverse.loops) extents.push_back(*as_int(l.extent));
  return extents;
}

/// The points that the inverse says read element `x`, each with how often it says so.
std::map<Point, int> points_at(const Inverse& inverse, const Point& x) {
  std::vector<VarBinding> at;
  for (size_t d = 0; d < x.size(); ++d) at.push_back({inverse.indices[d], Expr(x[d])});
  std::map<Point, int> found;
  for (const Expr& c : inverse.exists)
    if (!value_of(c, at)) return found;
  std::vector<VarBinding> known;
  for (const autodiff::Position& p : inverse.positions) {
    const int64_t place = value_of(p.place, at);
    EXPECT_GE(place, 0);
    EXPECT_LT(place, *as_int(p.extent));
    known.push_back({p.var, Expr(place)});
  }
  for_all(extents_of(inverse), [&](const Point& loop) {
    std::vector<VarBinding> all = known;
    for (size_t i = 0; i < loop.size(); ++i) all.push_back({inverse.loops[i].var, Expr(loop[i])});
    for (const Expr& c : inverse.conditions)
      if (!value_of(c, all)) return;
    for (const autodiff::Bound& b : inverse.bounds) {
      const int64_t v = value_of(b.value, all);
      if (v < 0 || v >= *as_int(b.extent)) return;
    }
    Point point;
    for (const VarBinding& b : inverse.points) point.push_back(value_of(b.value, all));
    ++found[point];
  });
  return found;
}

bool is_in(const std::vector<Interval>& region, const Point& x) {
  for (size_t d = 0; d < region.size(); ++d)
    if (x[d] < region[d].min || x[d] > region[d].max) return false;
  return true;
}

void expect_inverse(const Point& shape, const std::vector<Expr>& indices,
                    const std::vector<Axis>& axes, const std::vector<Interval>& region = {}) {
  std::map<Point, std::set<Point>> want;
  Point extents;
  for (const Axis& a : axes) extents.push_back(a.extent());
  for_all(extents, [&](const Point& p) {
    std::vector<VarBinding> at;
    for (size_t i = 0; i < p.size(); ++i) at.push_back({axes[i].var(), Expr(p[i])});
    Point x;
    for (const Expr& e : indices) x.push_back(value_of(e, at));
    want[x].insert(p);
  });
  const Inverse inverse = invert(Shape(shape.begin(), shape.end()), indices, axes, region);
  for_all(shape, [&](const Point& x) {
    if (!is_in(region, x)) return;
    const std::map<Point, int> found = points_at(inverse, x);
    EXPECT_EQ(found.size(), want[x].size());
    for (const auto& [p, times] : found) {
      EXPECT_EQ(times, 1);
      EXPECT_TRUE(want[x].contains(p));
    }
  });
}

TEST(Inverse, OfRandomIndexMaps) {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Rng rng(seed);
    std::vector<Axis> axes;
    const int64_t count = rng.uniform_int(1, 3);
    for (int64_t i = 0; i < count; ++i)
      axes.emplace_back("a" + std::to_string(i), Expr(rng.uniform_int(1, 5)), AxisKind::Spatial);
    std::vector<Expr> indices;
    Point shape;
    for (int64_t d = rng.uniform_int(1, 2); d > 0; --d) {
      Expr e = rng.uniform_int(0, 2);
      int64_t lo = *as_int(e), hi = lo;
      for (const Axis& a : axes) {
        const int64_t c = rng.uniform_int(-3, 4);
        e = e + Expr(a) * c;
        (c < 0 ? lo : hi) += c * (a.extent() - 1);
      }
      e = e - lo;
      hi -= lo;
      const int64_t by = rng.uniform_int(2, 4);
      switch (rng.uniform_int(0, 3)) {
        case 0: e = floordiv(e, by), hi = hi / by; break;
        case 1: e = floormod(e, by), hi = by - 1; break;
        default: break;
      }
      indices.push_back(e);
      shape.push_back(hi + 1 + rng.uniform_int(0, 1));
    }
    expect_inverse(shape, indices, axes);
    std::vector<Interval> region;
    for (const int64_t extent : shape) {
      const int64_t lo = rng.uniform_int(0, extent - 1);
      region.push_back({lo, rng.uniform_int(lo, extent - 1)});
    }
    expect_inverse(shape, indices, axes, region);
    if (testing::Test::HasFailure()) break;
  }
}

TEST(Inverse, OfAReshapeHasNothingToSumOver) {
  const std::vector<Axis> axes{Axis("i", 8, AxisKind::Spatial), Axis("j", 15, AxisKind::Spatial)};
  const Expr flat = axes[0] * 15 + axes[1];
  const std::vector<Expr> indices{floordiv(flat, 30), floormod(floordiv(flat, 5), 6),
                                  floormod(flat, 5)};
  expect_inverse({4, 6, 5}, indices, axes);
  EXPECT_TRUE(invert({4, 6, 5}, indices, axes).loops.empty());
}

TEST(Inverse, OfAStridedWindowSumsOverItsPhase) {
  const std::vector<Axis> axes{Axis("y", 9, AxisKind::Spatial), Axis("r", 5, AxisKind::Reduce)};
  const Inverse inverse = invert({Expr(21)}, {axes[0] * 2 + axes[1]}, axes);
  EXPECT_TRUE(inverse.split);
  EXPECT_EQ(extents_of(inverse), (Point{3}));
}

}  // namespace
}  // namespace heddle
