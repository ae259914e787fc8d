// How the operands of a contraction are copied: the order of the copy in memory, and its loops.
// Each function returns its loops, outermost first. The outer ones may be shared among threads.
#pragma once

#include <numeric>

#include "heddle/schedule/template.h"

namespace heddle::meta::cpu {

/// Dimensions 0..n-1 except `without`, followed by `last` unless that is -1.
inline std::vector<int> dims_but(int n, int without, int last) {
  std::vector<int> dims;
  for (int d = 0; d < n; ++d) {
    if (d != without && d != last) dims.push_back(d);
  }
  if (last >= 0) dims.push_back(last);
  return dims;
}

/// Cuts the loops over dimension `run`, along which the source is contiguous, and dimension
/// `along`, so that squares are transposed in registers. `lanes` is the number of lanes of a
/// vector.
inline void transpose_squares(StageRef p, std::vector<Loop>& order, Loop run, Loop along,
                              int64_t lanes) {
  auto [ro, ri] = p.split(run, lanes);
  auto [ao, ai] = p.split(along, lanes);
  *std::find(order.begin(), order.end(), run) = ro;
  *std::find(order.begin(), order.end(), along) = ao;
  std::vector<Loop> all = order;
  all.push_back(ri);
  all.push_back(ai);
  p.reorder(all);
  p.unroll(ri);
  p.vectorize(ai);
  p.expect(Instruction::TransposedSquare);
}

/// Copies in tiles of `tile` along `dim`: [dim/tile][the others..., inner][dim%tile]. `inner` is
/// the one of the others that goes last, or -1 where they keep their order. `runs` are the dimensions
/// along which the source is contiguous, where this is a transposition of 32-bit elements by tiles
/// of whole vectors; else none. Several are neighbours among the others.
inline std::vector<Loop> tile_copy(StageRef p, int dim, Param tile, int inner,
                                   const std::vector<int>& runs, int64_t lanes) {
  const std::vector<int> others = dims_but(p.num_axes(), dim, inner);
  std::vector<StageRef::StorageDim> dims{{dim, tile, 0}};
  for (int d : others) dims.push_back({d, 1, 0});
  dims.push_back({dim, 1, tile});
  p.layout(dims);
  auto [to, ti] = p.split(p.axis(dim), tile);
  std::vector<Loop> order{to};
  for (int d : others) order.push_back(p.axis(d));
  order.push_back(ti);
  p.reorder(order);
  if (!runs.empty()) {
    Loop run = p.axis(runs[0]);
    const auto first = std::find(order.begin(), order.end(), run);
    for (size_t r = 1; r < runs.size(); ++r) run = p.fuse(run, p.axis(runs[r]));
    *first = run;
    order.erase(first + 1, first + static_cast<std::ptrdiff_t>(runs.size()));
    transpose_squares(p, order, run, ti, lanes);
  } else {
    p.vectorize(ti);
  }
  return order;
}

/// Copies with dimension `dim` innermost and the others in their order. `squares` says that the
/// elements have 32 bits.
inline std::vector<Loop> innermost_copy(StageRef p, int dim, bool squares, int64_t lanes) {
  const int run = p.num_axes() - 1;
  std::vector<StageRef::StorageDim> dims;
  std::vector<Loop> order;
  for (int d : dims_but(p.num_axes(), -1, dim)) {
    dims.push_back({d, 1, 0});
    order.push_back(p.axis(d));
  }
  p.layout(dims);
  if (squares) {
    transpose_squares(p, order, p.axis(run), p.axis(dim), lanes);
    return order;
  }
  auto [o, i] = p.split(p.axis(dim), lanes);
  order.back() = o;
  order.push_back(i);
  p.reorder(order);
  p.vectorize(i);
  return order;
}

/// Copies with groups of `size` neighbours along dimension `k` contiguous, in tiles of `tile` along
/// `dim`: [dim/tile][the others, k/size...][dim%tile][k%size]. Where dim is -1, dimension `last` is
/// next to the groups: [the others, k/size...][last][k%size]. With `k_inner`, k/size is the last of
/// the others.
inline std::vector<Loop> group_copy(StageRef p, int k, int64_t size, int dim, Param tile, int last,
                                    bool k_inner, int64_t lanes) {
  const bool tiled = dim >= 0;
  const bool runs = !tiled && (last < 0 || last == k);  // along k stay as they are
  const int apart = tiled ? dim : runs ? -1 : last;     // comes next to the groups
  const std::vector<int> others = dims_but(p.num_axes(), apart, k_inner ? k : -1);
  std::vector<StageRef::StorageDim> dims;
  if (tiled) dims.push_back({dim, tile, 0});
  for (int d : others) dims.push_back({d, d == k ? Param(size) : Param(1), 0});
  if (tiled) dims.push_back({dim, 1, tile});
  if (!tiled && !runs) dims.push_back({last});
  dims.push_back({k, 1, size});
  p.layout(dims);
  std::vector<Loop> order;
  if (runs) {
    for (int d : dims_but(p.num_axes(), -1, k)) order.push_back(p.axis(d));
    auto [ko, ki] = p.split(p.axis(k), 2 * lanes);
    order.back() = ko;
    order.push_back(ki);
    p.reorder(order);
    p.vectorize(ki);
    return order;
  }
  auto [lo, li] = p.split(p.axis(apart), tiled ? tile : Param(2 * lanes));
  auto [ko, ki] = p.split(p.axis(k), size);
  if (tiled) order.push_back(lo);
  for (int d : others) order.push_back(d == k ? ko : p.axis(d));
  if (!tiled) order.push_back(lo);
  order.push_back(li);
  order.push_back(ki);
  p.reorder(order);
  order.pop_back();
  order.back() = p.fuse(li, ki);
  p.vectorize(order.back());
  return order;
}

}  // namespace heddle::meta::cpu
