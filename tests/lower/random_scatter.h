// Random scatters, and whether a program searches for what it stores.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "heddle/heddle.h"
#include "heddle/support/rng.h"

namespace heddle::testing {

/// A random scatter: some axes are named by data, which also names points that are not there.
struct DrawnScatter {
  Tensor result;
  std::vector<int64_t> sources;
  int named = 0;
};

inline Expr reduced(int which, const Expr& e, const std::vector<Axis>& q) {
  switch (which) {
    case 0: return sum(e, q);
    case 1: return max(e, q);
    case 2: return min(e, q);
    default: return prod(e, q);
  }
}

/// With at most `most` points and sources along an axis, but for the last one.
inline DrawnScatter draw_scatter(Rng& rng, int64_t most = 9) {
  DrawnScatter d;
  const int rank = static_cast<int>(rng.uniform_int(1, 3));
  const DataType type = rng.chance(0.5) ? f32 : i64;
  std::vector<int64_t> shape;
  for (int a = 0; a < rank; ++a)
    shape.push_back(a == rank - 1 && rng.chance(0.5) ? rng.choose(std::vector<int64_t>{16, 40, 130})
                                                     : rng.uniform_int(2, most));
  std::vector<bool> named(static_cast<size_t>(rank));
  named[static_cast<size_t>(rng.uniform_int(0, rank - 1))] = true;
  for (int a = 0; a < rank; ++a)
    named[static_cast<size_t>(a)] = named[static_cast<size_t>(a)] || rng.chance(0.3);
  for (int64_t n = rng.uniform_int(1, 2); n > 0; --n) d.sources.push_back(rng.uniform_int(2, most));
  std::vector<Axis> q;
  for (const int64_t n : d.sources) q.push_back(reduce_axis(n, "q"));
  // Sources and places may differ from column to column.
  const bool by_column = rng.chance(0.4), guarded = rng.chance(0.3);
  const int which = static_cast<int>(rng.uniform_int(0, 3));
  std::vector<int64_t> whole = d.sources;
  for (int a = 0; a < rank; ++a)
    whole.push_back(named[static_cast<size_t>(a)] ? 1 : shape[static_cast<size_t>(a)]);
  // Sums of 16-bit floats are in f32.
  const bool narrow = which == 0 && type == f32 && rng.chance(0.5);
  const DataType of_x = !narrow ? type : rng.chance(0.5) ? f16 : bf16;
  const Tensor x = placeholder(whole, of_x, "x");
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
        return reduced(which, cast(type, select(hit, x.at(own), cast(of_x, identity))), q);
      },
      "scattered");
  return d;
}

/// Whether a source is combined with a point that no data names.
inline bool searches(const Stmt& s, const Buffer& result) {
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

}  // namespace heddle::testing
