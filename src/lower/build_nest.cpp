#include "lower/build_nest.h"

#include <algorithm>
#include <functional>

#include "heddle/ir/sizes.h"
#include "heddle/support/error.h"
#include "lower/nest_builder.h"

namespace heddle {
namespace {

// The largest factor of a split for which a tail of varying length gets a copy of the body for each
// length.
constexpr int64_t kMostTails = 16;
// The largest factor of a split whose tail is cut into powers of two.
constexpr int64_t kMostCut = 128;

}  // namespace

std::vector<int> topological_stages(const ScheduleState& state) {
  std::vector<int> order;
  std::vector<char> seen(state.stages.size(), 0);
  std::function<void(int)> go = [&](int s) {
    if (s < 0 || seen[s]) return;
    seen[s] = 1;
    for (const Expr& body : state.stages[s].bodies) {
      visit(body, [&](const Expr& e) {
        if (const Load* load = e.as<Load>()) go(state.stage_of(load->buffer));
      });
    }
    order.push_back(s);
  };
  // Stages whose loops have followers come before the readers of the followers, because a follower
  // has its value when the loop has ended.
  for (const StageState& x : state.stages) {
    if (x.defined() && x.along >= 0) go(state.axes[static_cast<size_t>(x.along)].stage);
  }
  for (size_t i = 0; i < state.stages.size(); ++i) {
    if (state.stages[i].defined() && state.stages[i].placement != Placement::Inlined)
      go(static_cast<int>(i));
  }
  return order;
}

NestBuilder::NestBuilder(const ScheduleState& s, const std::vector<StageBuffers>& external,
                         bool plain_accesses)
    : s_(s), plain_accesses_(plain_accesses) {
  axes_.resize(s.axes.size());
  real_.resize(s.stages.size());
  root_min_.resize(s.stages.size());
  held_.resize(s.stages.size());
  readers_.resize(s.stages.size());
  axes_of_.resize(s.stages.size());
  for (size_t id = 0; id < s.axes.size(); ++id) {
    if (s.axes[id].defined) axes_of_[s.axes[id].stage].push_back(static_cast<int>(id));
  }
  order_ = topological_stages(s);
  for (int st : order_) {
    for (const Buffer& b : s.stages[st].buffers) stage_of_[b.get()] = st;
  }
  for (int st : order_) {
    for (const Expr& body : s.stages[st].bodies) {
      visit(body, [&](const Expr& e) {
        const Load* load = e.as<Load>();
        if (!load) return;
        auto& r = readers_[stage_of_.at(load->buffer.get())];
        if (r.empty() || r.back() != st) r.push_back(st);
      });
    }
  }
  for (const StageBuffers& x : external) {
    real_[x.stage] = {x.buffers, std::vector<Expr>(s.stages[x.stage].spatial.size(), Expr(0))};
  }
}

Stmt NestBuilder::roots(const std::vector<int>& list, size_t from) {
  if (from == list.size()) return {};
  int st = list[from];
  std::vector<Expr> mins, extents;
  for (int a : s_.stages[st].spatial) {
    mins.emplace_back(0);
    extents.push_back(s_.axes[a].extent);
  }
  bool temporary = real_[st].buffers.empty();
  if (temporary) real_[st] = realize(st, mins, extents, Scope::Global);
  Stmt nest = emit_stage(st, mins, extents);
  if (stage(st).last_block) nest = make_for(Var("last"), Expr(1), LoopKind::LastBlock, nest);
  Stmt body = make_block({nest, roots(list, from + 1)});
  if (temporary) {
    for (const Buffer& b : real_[st].buffers) body = make_allocate(b, body);
  }
  return body;
}

void NestBuilder::undo(const Mark& to) {
  while (changed_axes_.size() > to.axes) {
    auto& [id, before] = changed_axes_.back();
    axes_[id] = std::move(before);
    changed_axes_.pop_back();
  }
  while (changed_vars_.size() > to.vars) {
    auto& [var, before] = changed_vars_.back();
    if (before) {
      bound_[var] = std::move(before);
    } else {
      bound_.erase(var);
    }
    changed_vars_.pop_back();
  }
  guards_.resize(to.guards);
  lasts_.resize(to.lasts);
}

bool NestBuilder::at_most(const Expr& a, const Expr& b) const {
  if (prove(a <= b, ranges_)) return true;
  if (lasts_.empty()) return false;
  // The difference is smallest where each loop is at its first or last iteration. There, sizes
  // cancel.
  Expr room = simple(b - a);
  for (size_t i = lasts_.size(); i-- > 0;) {
    const auto& [v, last] = lasts_[i];
    if (!uses_var(room, v)) continue;
    const std::optional<Affine> affine = as_affine(room);
    if (!affine) return false;
    room = simple(substitute(room, {{v, affine->coefficient(v) < 0 ? last : Expr(0)}}));
  }
  return range_of(room, ranges_).min >= 0;
}

Stmt NestBuilder::emit_stage(int st, const std::vector<Expr>& mins,
                             const std::vector<Expr>& extents) {
  const StageState& p = stage(st);
  for (int id : axes_of_[st]) change(id) = {};
  for (size_t d = 0; d < p.spatial.size(); ++d) change(p.spatial[d]).extent = extents[d];
  root_min_[st] = mins;
  return emit_loops(st, p.leaves, 0, Mode::Compute);
}

// The last part of a cut reduction is shorter. The loop over parts must be opened before the loop
// inside a part.
void NestBuilder::check_extent_known(const AxisState& a) const {
  visit(a.extent, [&](const Expr& e) {
    const VarNode* v = e.as<VarNode>();
    if (!v || v->size || bound_.count(v)) return;
    throw_user_error("loop '" + a.name + "' of stage '" + stage(a.stage).name +
                         "' runs to a length that depends on '" + v->name +
                         "', which is not outside of it",
                     {}, "reorder '" + v->name + "' outside of '" + a.name + "'");
  });
}

Expr NestBuilder::extent_of(int id) {
  if (axes_[id].extent) return axes_[id].extent;
  const AxisState& a = s_.axes[id];
  switch (a.origin) {
    case AxisOrigin::Root: check_extent_known(a); return simple(translate(a.extent, a.stage));
    case AxisOrigin::SplitOuter: {
      int64_t f = s_.axes[a.parent].factor;
      Expr e = simple(floordiv(extent_of(a.parent) + Expr(f - 1), Expr(f)));
      return change(id).extent = e;
    }
    case AxisOrigin::SplitInner: {
      AxisCtx& c = change(id);
      c.full = true;
      return c.extent = Expr(s_.axes[a.parent].factor);
    }
    case AxisOrigin::Fused: {
      Expr e = simple(extent_of(a.fuse_a) * extent_of(a.fuse_b));
      return change(id).extent = e;
    }
  }
  return {};
}

Stmt NestBuilder::emit_loops(int st, const std::vector<int>& leaves, size_t n, Mode mode) {
  if (n == leaves.size()) {
    if (mode == Mode::Init) return emit_init_store(st);
    return mode == Mode::Rescale ? emit_rescale_store(st) : emit_store(st);
  }
  const AxisState& a = s_.axes[leaves[n]];
  if (mode == Mode::Compute && a.kind == AxisKind::Reduce && is_first_reduce(leaves, n))
    return make_block({emit_inits(st, leaves, n), emit_loop(st, leaves, n, mode)});
  return emit_loop(st, leaves, n, mode);
}

bool NestBuilder::is_first_reduce(const std::vector<int>& leaves, size_t n) const {
  for (size_t i = 0; i < n; ++i) {
    if (s_.axes[leaves[i]].kind == AxisKind::Reduce) return false;
  }
  return true;
}

Stmt NestBuilder::emit_loop(int st, const std::vector<int>& leaves, size_t n, Mode mode) {
  int leaf = leaves[n];
  const AxisState& a = s_.axes[leaf];
  Mark before = mark();
  Expr extent = extent_of(leaf);
  if (mode == Mode::Compute && a.kind == AxisKind::Reduce && leaf == stage(st).reduce[0])
    extent = within_reach(st, extent);
  Interval range = range_of(extent, ranges_);
  Var v(a.name);
  const int64_t* known = as_int(extent);
  bool unit = known && *known == 1;
  if (!unit) ranges_.set(v, {0, std::max<int64_t>(0, range.max - 1)});
  if (!unit && !sizes_in(extent).empty()) lasts_.push_back({v, extent - Expr(1)});
  std::vector<int> pending;
  bind(leaf, unit ? Expr(0) : v.expr(), &pending);
  Stmt body = decide(st, leaves, n, mode, pending, 0);
  undo(before);
  // A loop that marks a tile stays, even with one iteration.
  if (unit && !is_cluster(a.loop) && a.loop != LoopKind::Tensorized) return body;
  if (!unit) ranges_.erase(v);
  return make_for(v, extent, a.loop, body);
}

void NestBuilder::bind(int id, const Expr& value, std::vector<int>* pending) {
  const Expr begin = axes_[id].begin;
  change(id).value = simple(begin.defined() ? value + begin : value);
  const AxisState& a = s_.axes[id];
  switch (a.origin) {
    case AxisOrigin::Root: {
      Expr at = axes_[id].value;
      if (a.kind == AxisKind::Spatial) {
        const auto& spatial = stage(a.stage).spatial;
        size_t d = std::find(spatial.begin(), spatial.end(), id) - spatial.begin();
        at = simple(root_min_[a.stage][d] + at);
      }
      bind_var(a.var.get(), at);
      return;
    }
    case AxisOrigin::Fused: {
      Expr eb = extent_of(a.fuse_b);
      extent_of(a.fuse_a);
      Expr v = axes_[id].value;
      bind(a.fuse_a, floordiv(v, eb), pending);
      bind(a.fuse_b, floormod(v, eb), pending);
      return;
    }
    case AxisOrigin::SplitOuter:
    case AxisOrigin::SplitInner: {
      const AxisState& p = s_.axes[a.parent];
      const AxisCtx &o = axes_[p.split_outer], &i = axes_[p.split_inner];
      if (o.known() && i.known()) {
        Expr whole = simple(o.value * Expr(p.factor) + i.value);
        // The guard of an enclosing whole split implies the guard of this one.
        const bool implied =
            p.whole && p.origin == AxisOrigin::SplitOuter && s_.axes[p.parent].whole;
        if (i.full && !implied) {
          Expr in_range = simple(whole < extent_of(a.parent));
          const bool inside =
              is_const(in_range, 1) || at_most(whole + Expr(1), extent_of(a.parent));
          if (!inside) guards_.push_back(in_range);
        }
        bind(a.parent, whole, pending);
      } else if (a.origin == AxisOrigin::SplitOuter && p.whole) {
        extent_of(p.split_inner);
      } else if (a.origin == AxisOrigin::SplitOuter) {
        pending->push_back(a.parent);
      } else {
        change(id).full = true;
      }
      return;
    }
  }
}

bool NestBuilder::needs_const(int id) const {
  const AxisState& a = s_.axes[id];
  if (a.loop == LoopKind::Vectorized || a.loop == LoopKind::Unrolled) return true;
  if (a.split_outer >= 0) return needs_const(a.split_outer) || needs_const(a.split_inner);
  return a.fused_into >= 0 && needs_const(a.fused_into);
}

bool NestBuilder::region_of_inside(int st, const std::vector<int>& leaves, size_t n, int id) const {
  size_t first = first_leaf(leaves, id);
  for (int p : order_) {
    const StageState& x = stage(p);
    if (x.placement != Placement::At || x.at_stage != st) continue;
    size_t at = std::find(leaves.begin(), leaves.end(), x.at_axis) - leaves.begin();
    if (at >= n && at < first) return true;
  }
  return false;
}

size_t NestBuilder::first_leaf(const std::vector<int>& leaves, int id) const {
  const AxisState& a = s_.axes[id];
  if (a.split_outer >= 0)
    return std::min(first_leaf(leaves, a.split_outer), first_leaf(leaves, a.split_inner));
  if (a.fused_into >= 0) return first_leaf(leaves, a.fused_into);
  return std::find(leaves.begin(), leaves.end(), id) - leaves.begin();
}

// Register tiles and vectors have constant sizes. A short tile has a copy for each length that may
// be left. A long one is cut into powers of two: of 13 iterations the first 8, then 4, then 1.
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
  if (p.factor > kMostCut || !(whole_tiles || (leaf && loop == LoopKind::Vectorized))) return {};
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

Stmt NestBuilder::decide(int st, const std::vector<int>& leaves, size_t n, Mode mode,
                         const std::vector<int>& pending, size_t i) {
  if (i == pending.size()) return inside(st, leaves, n, mode);
  const AxisState& p = s_.axes[pending[i]];
  const AxisCtx& inner = axes_[p.split_inner];
  if (inner.full || inner.known()) return decide(st, leaves, n, mode, pending, i + 1);
  Expr whole = extent_of(pending[i]), outer = axes_[p.split_outer].value, factor(p.factor);
  auto with_part = [&](const Expr& begin, const Expr& extent) {
    Mark before = mark();
    AxisCtx& part = change(p.split_inner);
    part.extent = extent;
    part.begin = begin;
    Stmt r = decide(st, leaves, n, mode, pending, i + 1);
    undo(before);
    return r;
  };
  auto with = [&](const Expr& extent) { return with_part(Expr(), extent); };
  if (is_const(simple(floormod(whole, factor)), 0)) return with(factor);
  Expr mains = simple(floordiv(whole, factor));  // the number of full outer iterations
  Expr is_main = simple(outer < mains);
  if (is_const(is_main, 1)) return with(factor);
  Expr rest = simple(whole - mains * factor);
  if (is_const(is_main, 0)) return with(rest);
  if (!needs_const(p.split_inner) && !region_of_inside(st, leaves, n, p.split_inner))
    return with(simple(min(factor, whole - outer * factor)));
  const VarNode* v = outer.as<VarNode>();
  const int64_t* m = as_int(mains);
  if (!sizes_in(whole).empty()) {
    const Mark before = mark();
    if (outer.kind() == ExprKind::Var) lasts_.push_back({var_of(outer), mains - Expr(1)});
    const Stmt main = with(factor);
    undo(before);
    const bool tiled = region_of_inside(st, leaves, n, p.split_inner);
    const Stmt tail = tails(p, rest, tiled, with_part);
    return make_if(is_main, main, tail ? tail : with(rest));
  }
  if (!v || !m) return make_if(is_main, with(factor), with(rest));
  // Each copy is built with the range that the outer loop has there.
  Interval all = ranges_.get(v);
  Var var = var_of(outer);
  ranges_.set(var, {all.min, std::min(all.max, *m - 1)});
  Stmt main = with(factor);
  ranges_.set(var, {std::max(all.min, *m), all.max});
  Stmt tail = with(rest);
  ranges_.set(var, all);
  return make_if(is_main, main, tail);
}

Stmt NestBuilder::inside(int st, const std::vector<int>& leaves, size_t n, Mode mode) {
  if (mode != Mode::Compute) return emit_loops(st, leaves, n + 1, mode);
  // The stages that are computed at this loop, stored at it, or both.
  std::vector<int> here;
  for (int p : order_) {
    const StageState& x = stage(p);
    if (x.placement != Placement::At) continue;
    if (x.store_axis == leaves[n] || (x.at_stage == st && x.at_axis == leaves[n]) ||
        x.along == leaves[n])
      here.push_back(p);
  }
  const bool rescales =
      stage(st).rescale.defined() && !stage(st).reduce.empty() && stage(st).reduce[0] == leaves[n];
  if (here.empty() && !rescales) return emit_loops(st, leaves, n + 1, mode);
  std::map<int, Region> memo;
  std::vector<std::vector<Expr>> mins(here.size()), extents(here.size());
  for (size_t i = 0; i < here.size(); ++i) {
    if (stage(here[i]).along == leaves[n]) continue;
    const Region& r = demand(here[i], st, n, &memo);
    for (const SymInterval& dim : r.dims) {
      mins[i].push_back(dim.lo);
      extents[i].push_back(simple(dim.hi - dim.lo + Expr(1)));
    }
    if (stage(here[i]).store_axis == leaves[n]) check_kept(here[i], st, n, &memo);
  }
  std::vector<Realization> saved;
  std::vector<std::pair<Buffer, int>> buffers;
  for (size_t i = 0; i < here.size(); ++i) {
    const StageState& x = stage(here[i]);
    saved.push_back(real_[here[i]]);
    if (x.along == leaves[n]) continue;
    if (x.along >= 0) {
      held_[here[i]].clear();
      for (size_t d = 0; d < mins[i].size(); ++d)
        held_[here[i]].push_back({mins[i][d], simple(mins[i][d] + extents[i][d] - Expr(1)), true});
    }
    if (x.store_axis >= 0 && x.store_axis != leaves[n]) {
      check_has_storage(here[i]);
      continue;
    }
    real_[here[i]] = realize(here[i], mins[i], extents[i], x.scope);
    for (const Buffer& b : real_[here[i]].buffers) buffers.emplace_back(b, x.copies);
  }
  std::vector<Stmt> seq;
  for (size_t i = 0; i < here.size(); ++i) {
    if (stage(here[i]).along == leaves[n]) {
      seq.push_back(emit_update(here[i], st, n));
    } else if (stage(here[i]).store_axis != leaves[n] && stage(here[i]).along < 0) {
      seq.push_back(emit_stage(here[i], mins[i], extents[i]));
    }
  }
  if (rescales) seq.push_back(emit_rescale(st, leaves));
  seq.push_back(emit_loops(st, leaves, n + 1, mode));
  for (size_t i = 0; i < here.size(); ++i) real_[here[i]] = saved[i];
  Stmt body = make_block(std::move(seq));
  for (const auto& [b, copies] : buffers) body = make_allocate(b, body, copies);
  return body;
}

Stmt build_nest(const ScheduleState& state, const std::vector<int>& roots,
                const std::vector<StageBuffers>& external, bool plain_accesses) {
  return NestBuilder(state, external, plain_accesses).roots(roots);
}

}  // namespace heddle
