#include "lower/nest/tails.h"

#include <algorithm>

#include "ir/sizes.h"
#include "lower/nest/dependence.h"
#include "lower/nest/vectors.h"

namespace heddle::lowering {
namespace {

// The largest factor of a split for which a tail of varying length gets a copy of the body for each
// length.
constexpr int64_t kMostTails = 16;
// The most copies that the tails of a tile make of it, with those of tiles inside of it.
constexpr int64_t kMostCopies = 64;
// The largest factor of a split whose tail is cut into powers of two, for stages that are computed
// inside of it.
constexpr int64_t kMostCut = 128;
// The most vectors of a tile whose tail is whole vectors. Each number of them has a copy.
constexpr int64_t kMostVectors = 8;

// Zeros between the operands would hide what instructions for matrices and dot products are
// recognised by.
bool can_mask(const StageGraph& graph) {
  const ScheduleState& s = graph.state();
  return !graph.on_gpu() && std::none_of(s.axes.begin(), s.axes.end(), [](const AxisState& a) {
    return is_tensorized(a.loop);
  }) && std::none_of(s.stages.begin(), s.stages.end(), [](const StageState& x) {
    return has(x.hints, StoreHint::DotProduct);
  });
}

}  // namespace

Tails::Tails(const StageGraph& graph, AxisScope& axes, bool masks)
    : graph_(graph), s_(graph.state()), axes_(axes), masks_(masks && can_mask(graph)) {}

bool Tails::needs_const(int id) const {
  const AxisState& a = s_.axes[static_cast<size_t>(id)];
  if (a.loop == LoopKind::Vectorized || a.loop == LoopKind::Unrolled) return true;
  if (a.split_outer >= 0) return needs_const(a.split_outer) || needs_const(a.split_inner);
  return a.fused_into >= 0 && needs_const(a.fused_into);
}

Stmt Tails::cases_from(size_t i, const LoopPlace& at, const std::vector<int>& splits,
                       FunctionRef<Stmt()> body) {
  if (i == splits.size()) return body();
  const AxisState& p = s_.axes[static_cast<size_t>(splits[i])];
  const AxisScope::Axis& inner = axes_.axis(p.split_inner);
  if (inner.full || inner.known()) return cases_from(i + 1, at, splits, body);
  const auto part = [&](const Expr& begin, const Expr& extent) {
    const AxisScope::Known known(axes_);
    axes_.run_part(p, begin, extent);
    return cases_from(i + 1, at, splits, body);
  };
  return split(at, splits[i], part);
}

Stmt Tails::split(const LoopPlace& at, int id, Part part) {
  const AxisState& p = s_.axes[static_cast<size_t>(id)];
  const OpenLoops& loops = axes_.loops();
  const Expr whole = axes_.extent(id), outer = axes_.axis(p.split_outer).value, factor(p.factor);
  if (is_const(loops.simple(floormod(whole, factor)), 0)) return part({}, factor);
  const Expr mains = loops.simple(floordiv(whole, factor));
  const Expr is_main = loops.simple(outer < mains);
  if (is_const(is_main, 1)) return part({}, factor);
  const Expr rest = loops.simple(whole - mains * factor);
  if (is_const(is_main, 0)) return part({}, rest);
  const bool sized = !sizes_in(whole).empty();
  const bool region = region_of_inside(graph_, at, p.split_inner, sized);
  if (!needs_const(p.split_inner) && !region)
    return part({}, loops.simple(min(factor, whole - outer * factor)));
  const Split split{p, whole, outer, mains, rest, is_main};
  return sized ? sized_cases(at, split, region, part) : constant_cases(split, part);
}

Stmt Tails::sized_cases(const LoopPlace& at, const Split& split, bool region, Part part) {
  Stmt main;
  {
    const OpenLoops::Scope scope(axes_.loops());
    if (split.outer.kind() == ExprKind::Var)
      axes_.loops().end_at(Var::from(split.outer), split.mains - Expr(1));
    main = part({}, Expr(split.axis.factor));
  }
  const bool tiles = region && tiles_span(graph_, at, split.axis.split_inner);
  const bool masked = tiles && masks_ && vectors_are_runs(graph_, at);
  Stmt tail = masked ? masked_tails(split, part) : Stmt();
  if (!tail) tail = cut_tails(split, tiles, copies_inside(at), part);
  if (tail) return make_if(split.is_main, main, tail);
  const AxisScope::Known known(axes_);
  if (region) axes_.come_after(split.axis, split.mains);
  return make_if(split.is_main, main, part({}, split.rest));
}

Stmt Tails::constant_cases(const Split& split, Part part) {
  const Expr factor(split.axis.factor);
  const int64_t* mains = as_int(split.mains);
  if (split.outer.kind() != ExprKind::Var || !mains)
    return make_if(split.is_main, part({}, factor), part({}, split.rest));
  // Each copy is built with the range of the outer loop that applies to it.
  OpenLoops& loops = axes_.loops();
  const Var outer = Var::from(split.outer);
  const Interval all = loops.ranges().get(outer.get());
  Stmt main, tail;
  {
    const OpenLoops::Scope scope(loops);
    loops.narrow(outer, {all.min, std::min(all.max, *mains - 1)});
    main = part({}, factor);
  }
  {
    const OpenLoops::Scope scope(loops);
    loops.narrow(outer, {std::max(all.min, *mains), all.max});
    tail = part({}, split.rest);
  }
  return make_if(split.is_main, main, tail);
}

int64_t Tails::copies_inside(const LoopPlace& at) const {
  int64_t copies = 1;
  for (size_t i = at.n + 1; i < at.leaves.size(); ++i) {
    const AxisState& a = s_.axes[static_cast<size_t>(at.leaves[i])];
    if (a.loop != LoopKind::Unrolled || a.origin != AxisOrigin::SplitInner) continue;
    const int64_t factor = s_.axes[static_cast<size_t>(a.parent)].factor;
    if (axes_.is_sized(a.parent) && factor <= kMostTails) copies *= factor;
  }
  return copies;
}

// Register tiles have constant sizes. A short tile has a copy for each possible remaining length. A
// long one, and one of which there would be too many copies, is cut into powers of two: of 13
// iterations the first 8, then 4, then 1. What is left of other vectors is a loop whose length
// varies, which `vectorize` turns into vectors.
// On CPUs the tail of an unrolled reduction stays a loop, unless it may be all of it: accumulators
// do not depend on the step, and copies were a third of the code of an attention.
Stmt Tails::cut_tails(const Split& split, bool tiles, int64_t copies, Part part) {
  const int64_t factor = split.axis.factor;
  const AxisState& inner = s_.axes[static_cast<size_t>(split.axis.split_inner)];
  const OpenLoops& loops = axes_.loops();
  const bool reduced =
      inner.kind == AxisKind::Reduce && !graph_.on_gpu() && split.axis.static_extent > factor;
  const bool unrolled = inner.is_leaf() && inner.loop == LoopKind::Unrolled && !reduced;
  const bool few = factor <= kMostTails && factor * copies <= kMostCopies;
  if (few && (unrolled || tiles)) {
    Stmt out;
    for (int64_t r = 1; r < factor; ++r)
      out = make_if(loops.simple(split.rest == Expr(r)), part({}, Expr(r)), out);
    return out;
  }
  if (factor > kMostCut || !tiles) return {};
  std::vector<Stmt> parts;
  int64_t length = 1;
  while (length * 2 < factor) length *= 2;
  for (; length >= 1; length /= 2) {
    const Expr before = loops.simple(floordiv(split.rest, Expr(2 * length)) * Expr(2 * length));
    const Expr there = loops.simple(split.rest - before >= Expr(length));
    parts.push_back(make_if(there, part(before, Expr(length)), {}));
  }
  return make_block(std::move(parts));
}

// if (rest > 32) { a tile of 48, lanes below rest } else if (rest > 16) { one of 32 } else { .. }
// It comes after the full tiles, and their number in place of the loop says which lanes are left
// out.
Stmt Tails::masked_tails(const Split& split, Part part) {
  const int64_t factor = split.axis.factor;
  const int64_t lanes = lanes_inside(s_, split.axis.split_inner);
  if (lanes < 2 || factor % lanes != 0 || factor > kMostVectors * lanes) return {};
  Stmt out;
  for (int64_t length = lanes; length <= factor; length += lanes) {
    const AxisScope::Known known(axes_);
    axes_.go_beyond(split.axis, split.mains);
    const Stmt tile = part({}, Expr(length));
    out = make_if(axes_.loops().simple(split.rest > Expr(length - lanes)), tile, out);
  }
  return out;
}

}  // namespace heddle::lowering
