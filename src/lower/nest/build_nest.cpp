#include "lower/nest/build_nest.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "lower/nest/nest_builder.h"

namespace heddle {
NestBuilder::NestBuilder(const ScheduleState& s, const std::vector<StageBuffers>& external,
                         const NestOptions& options)
    : graph_(s), s_(s), plain_accesses_(options.plain_accesses) {
  on_gpu_ = std::any_of(s.axes.begin(), s.axes.end(),
                        [](const AxisState& a) { return is_block(a.loop) || is_thread(a.loop); });
  for (size_t id = 0; id < s.axes.size(); ++id) {
    const AxisState& a = s.axes[id];
    const bool split = a.defined && a.split_outer >= 0;
    whole_.push_back(split && (a.whole || (on_gpu_ && sized(static_cast<int>(id)))));
  }
  // Zeros between the operands would hide what such instructions are recognised by.
  const bool matrices = std::any_of(s.axes.begin(), s.axes.end(), [](const AxisState& a) {
    return a.loop == LoopKind::Tensorized;
  });
  masks_ = options.masks && !on_gpu_ && !matrices &&
           std::none_of(s.stages.begin(), s.stages.end(),
                        [](const StageState& x) { return has(x.hints, StoreHint::DotProduct); });
  beyond_.resize(s.stages.size());
  axes_.resize(s.axes.size());
  real_.resize(s.stages.size());
  root_min_.resize(s.stages.size());
  held_.resize(s.stages.size());
  for (const StageBuffers& x : external) {
    real_[x.stage] = {x.buffers, std::vector<Expr>(s.stages[x.stage].spatial.size(), Expr(0))};
  }
}

bool NestBuilder::sized(int id) const {
  const AxisState& a = s_.axes[static_cast<size_t>(id)];
  switch (a.origin) {
    case AxisOrigin::Root: return !sizes_in(a.extent).empty();
    case AxisOrigin::SplitOuter: return sized(a.parent);
    case AxisOrigin::SplitInner: return false;
    case AxisOrigin::Fused: return sized(a.fuse_a) || sized(a.fuse_b);
  }
  return false;
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

NestBuilder::Known::~Known() {
  for (auto& changed = of_.changed_axes_; changed.size() > axes_; changed.pop_back())
    of_.axes_[changed.back().first] = std::move(changed.back().second);
  for (auto& changed = of_.changed_vars_; changed.size() > vars_; changed.pop_back()) {
    auto& [var, before] = changed.back();
    if (before) {
      of_.bound_[var] = std::move(before);
    } else {
      of_.bound_.erase(var);
    }
  }
  of_.guards_.resize(guards_);
  of_.lasts_.resize(lasts_);
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
  for (int id : graph_.axes(st)) change(id) = {};
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
      // A query before the outer loop is open, such as that for a region, decides no tail.
      if (!is_sized(a.parent) || is_whole(a.parent)) run_whole(id);
      return Expr(s_.axes[a.parent].factor);
    }
    case AxisOrigin::Fused: {
      Expr e = simple(extent_of(a.fuse_a) * extent_of(a.fuse_b));
      return change(id).extent = e;
    }
  }
  return {};
}

void NestBuilder::run_whole(int inner) {
  if (axes_[inner].extent) return;
  const int parent = s_.axes[inner].parent;
  const AxisState& split = s_.axes[parent];
  int64_t length = split.factor;
  // A part of constant length of an axis of varying length is no longer than itself, as it would be
  // at one size: a warp takes a tile of 8 columns and not one of 16.
  if (is_whole(parent) && !split.whole) {
    const Expr extent = extent_of(parent);
    if (const int64_t* n = as_int(extent); n && *n > 0) length = std::min(length, *n);
  }
  AxisCtx& c = change(inner);
  c.full = true;
  c.extent = Expr(length);
}

bool NestBuilder::is_sized(int id) const {
  const AxisState& a = s_.axes[id];
  if (axes_[id].extent) return !sizes_in(axes_[id].extent).empty();
  if (a.origin == AxisOrigin::Root) return !sizes_in(a.extent).empty();
  if (a.origin == AxisOrigin::Fused) return is_sized(a.fuse_a) || is_sized(a.fuse_b);
  return is_sized(a.parent);
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
  const Known known_here(this);
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
      const Expr ea = extent_of(a.fuse_a), eb = extent_of(a.fuse_b);
      Expr v = axes_[id].value;
      bind(a.fuse_a, outer_part(a, v), pending);
      bind(a.fuse_b, is_const(ea, 1) ? v : floormod(v, eb), pending);
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
            is_whole(a.parent) && p.origin == AxisOrigin::SplitOuter && is_whole(p.parent);
        if (i.full && !implied) {
          Expr in_range = simple(whole < extent_of(a.parent));
          const bool inside =
              is_const(in_range, 1) || at_most(whole + Expr(1), extent_of(a.parent));
          if (!inside) guards_.push_back(in_range);
        }
        bind(a.parent, whole, pending);
      } else if (a.origin == AxisOrigin::SplitOuter && is_whole(a.parent)) {
        run_whole(p.split_inner);
      } else if (a.origin == AxisOrigin::SplitOuter) {
        pending->push_back(a.parent);
      } else {
        change(id).full = true;
      }
      return;
    }
  }
}

Stmt NestBuilder::inside(int st, const std::vector<int>& leaves, size_t n, Mode mode) {
  if (mode != Mode::Compute) return emit_loops(st, leaves, n + 1, mode);
  // The stages that are computed at this loop, stored at it, or both.
  std::vector<int> here;
  for (int p : graph_.order()) {
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
    beyond_[here[i]] = r.beyond;
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
                const std::vector<StageBuffers>& external, const NestOptions& options) {
  return NestBuilder(state, external, options).roots(roots);
}

}  // namespace heddle
