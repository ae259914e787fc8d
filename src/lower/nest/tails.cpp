// The parts that a split of an axis leaves: full tiles, and a tail whose length may not be
// constant.
#include <algorithm>
#include <functional>
#include <vector>

#include "ir/sizes.h"
#include "lower/nest/dependence.h"
#include "lower/nest/nest_builder.h"
#include "lower/nest/vectors.h"

namespace heddle {
namespace {

// The largest factor of a split for which a tail of varying length gets a copy of the body for each
// length.
constexpr int64_t kMostTails = 16;
// The largest factor of a split whose tail is cut into powers of two, for stages that are computed
// inside of it.
constexpr int64_t kMostCut = 128;
// The most vectors of a tile whose tail is whole vectors. Each number of them has a copy.
constexpr int64_t kMostVectors = 8;

}  // namespace

// A quotient by an extent that depends on sizes has no bound that is a number. A number of blocks
// is given the one that it has, without which the tiles of each block would have tails. Other
// quotients join the remainder again: (f / n)*n + f % n is f.
Expr NestBuilder::outer_part(const AxisState& fused, const Expr& at) {
  const Expr outer = extent_of(fused.fuse_a), inner = extent_of(fused.fuse_b);
  if (is_const(outer, 1)) return Expr(0);
  const std::function<bool(int)> in_blocks = [&](int id) {
    const AxisState& a = s_.axes[id];
    if (a.origin == AxisOrigin::Fused) return in_blocks(a.fuse_a) || in_blocks(a.fuse_b);
    return a.origin == AxisOrigin::SplitOuter;
  };
  const int64_t* count = as_int(outer);
  const Expr quotient = floordiv(at, inner);
  return !on_gpu_ && count && !as_int(inner) && in_blocks(fused.fuse_a)
             ? min(quotient, Expr(*count - 1))
             : quotient;
}

bool NestBuilder::needs_const(int id) const {
  const AxisState& a = s_.axes[id];
  if (a.loop == LoopKind::Vectorized || a.loop == LoopKind::Unrolled) return true;
  if (a.split_outer >= 0) return needs_const(a.split_outer) || needs_const(a.split_inner);
  return a.fused_into >= 0 && needs_const(a.fused_into);
}

// Register tiles have constant sizes. A short tile has a copy for each possible remaining length. A
// long one is cut into powers of two: of 13 iterations the first 8, then 4, then 1. What is left of
// other vectors is a loop whose length varies, which `vectorize` turns into vectors.
template <class With>
Stmt NestBuilder::tails(const AxisState& p, const Expr& rest, bool whole_tiles, const With& with) {
  const LoopKind loop = s_.axes[p.split_inner].loop;
  const bool leaf = s_.axes[p.split_inner].is_leaf();
  if (p.factor <= kMostTails && ((leaf && loop == LoopKind::Unrolled) || whole_tiles)) {
    Stmt out;
    for (int64_t r = 1; r < p.factor; ++r)
      out = make_if(simple(rest == Expr(r)), with(Expr(), Expr(r)), out);
    return out;
  }
  if (p.factor > kMostCut || !whole_tiles) return {};
  std::vector<Stmt> parts;
  int64_t length = 1;
  while (length * 2 < p.factor) length *= 2;
  for (; length >= 1; length /= 2) {
    const Expr before = simple(floordiv(rest, Expr(2 * length)) * Expr(2 * length));
    const Expr there = simple(rest - before >= Expr(length));
    parts.push_back(make_if(there, with(before, Expr(length)), {}));
  }
  return make_block(std::move(parts));
}

// if (rest > 32) { a tile of 48, lanes below rest } else if (rest > 16) { one of 32 } else { .. }
// It comes after `full` tiles, and that number in place of the loop says which lanes are left out.
template <class With>
Stmt NestBuilder::masked_tails(const AxisState& p, const Expr& full, const Expr& rest,
                               const With& with) {
  const int64_t lanes = lanes_inside(s_, p.split_inner);
  if (lanes < 2 || p.factor % lanes != 0 || p.factor > kMostVectors * lanes) return {};
  Stmt out;
  for (int64_t length = lanes; length <= p.factor; length += lanes) {
    const Known known(this);
    change(p.split_inner).beyond = true;
    change(p.split_outer).value = full;
    ++beyond_open_;
    Stmt tile = with(Expr(), Expr(length));
    --beyond_open_;
    out = make_if(simple(rest > Expr(length - lanes)), tile, out);
  }
  return out;
}

Stmt NestBuilder::decide(int st, const std::vector<int>& leaves, size_t n, Mode mode,
                         const std::vector<int>& pending, size_t i) {
  if (i == pending.size()) return inside(st, leaves, n, mode);
  const AxisState& p = s_.axes[pending[i]];
  const AxisCtx& inner = axes_[p.split_inner];
  if (inner.full || inner.known()) return decide(st, leaves, n, mode, pending, i + 1);
  Expr whole = extent_of(pending[i]), outer = axes_[p.split_outer].value, factor(p.factor);
  auto with_part = [&](const Expr& begin, const Expr& extent) {
    const Known known(this);
    AxisCtx& part = change(p.split_inner);
    part.extent = extent;
    part.begin = begin;
    part.full |= part.beyond;  // what is stored is guarded
    return decide(st, leaves, n, mode, pending, i + 1);
  };
  auto with = [&](const Expr& extent) { return with_part(Expr(), extent); };
  if (is_const(simple(floormod(whole, factor)), 0)) return with(factor);
  Expr mains = simple(floordiv(whole, factor));  // the number of full outer iterations
  Expr is_main = simple(outer < mains);
  if (is_const(is_main, 1)) return with(factor);
  Expr rest = simple(whole - mains * factor);
  if (is_const(is_main, 0)) return with(rest);
  const bool sized = !sizes_in(whole).empty();
  const bool region = region_of_inside(graph_, st, leaves, n, p.split_inner, sized);
  if (!needs_const(p.split_inner) && !region)
    return with(simple(min(factor, whole - outer * factor)));
  const VarNode* v = outer.as<VarNode>();
  const int64_t* m = as_int(mains);
  if (sized) {
    Stmt main;
    {
      const Known known(this);
      if (outer.kind() == ExprKind::Var) lasts_.push_back({var_of(outer), mains - Expr(1)});
      main = with(factor);
    }
    const bool masked = region && masks_ && vectors_are_runs(graph_, st, leaves, n);
    Stmt tail = masked ? masked_tails(p, mains, rest, with_part) : Stmt();
    if (!tail) tail = tails(p, rest, region, with_part);
    return make_if(is_main, main, tail ? tail : with(rest));
  }
  if (!v || !m) return make_if(is_main, with(factor), with(rest));
  // Each copy is built with the range of the outer loop that applies to it.
  Interval all = ranges_.get(v);
  Var var = var_of(outer);
  ranges_.set(var, {all.min, std::min(all.max, *m - 1)});
  Stmt main = with(factor);
  ranges_.set(var, {std::max(all.min, *m), all.max});
  Stmt tail = with(rest);
  ranges_.set(var, all);
  return make_if(is_main, main, tail);
}

}  // namespace heddle
