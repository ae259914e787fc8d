#include "lower/nest/axis_scope.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "ir/sizes.h"

namespace heddle::lowering {
namespace {

// Whether the length of axis `id` is declared by symbolic sizes.
bool is_declared_sized(const ScheduleState& s, int id) {
  const AxisState& a = s.axes[static_cast<size_t>(id)];
  switch (a.origin) {
    case AxisOrigin::Root: return !sizes_in(a.extent).empty();
    case AxisOrigin::SplitOuter: return is_declared_sized(s, a.parent);
    case AxisOrigin::SplitInner: return false;
    case AxisOrigin::Fused: return is_declared_sized(s, a.fuse_a) || is_declared_sized(s, a.fuse_b);
  }
  return false;
}

// Whether axis `id` counts blocks of an axis, or of several that are fused.
bool in_blocks(const ScheduleState& s, int id) {
  const AxisState& a = s.axes[static_cast<size_t>(id)];
  if (a.origin == AxisOrigin::Fused) return in_blocks(s, a.fuse_a) || in_blocks(s, a.fuse_b);
  return a.origin == AxisOrigin::SplitOuter;
}

}  // namespace

AxisScope::AxisScope(const StageGraph& graph, bool plain_accesses)
    : graph_(graph),
      s_(graph.state()),
      loops_(plain_accesses),
      axes_(s_.axes.size()),
      parts_(s_.stages.size()) {
  for (size_t id = 0; id < s_.axes.size(); ++id) {
    const AxisState& a = s_.axes[id];
    const bool split = a.defined && a.split_outer >= 0;
    whole_.push_back(split &&
                     (a.whole || (graph.on_gpu() && is_declared_sized(s_, static_cast<int>(id)))));
  }
}

AxisScope::Known::~Known() {
  for (auto& changed = of_.changed_axes_; changed.size() > axes_; changed.pop_back())
    of_.axes_[static_cast<size_t>(changed.back().first)] = std::move(changed.back().second);
  for (auto& changed = of_.changed_vars_; changed.size() > vars_; changed.pop_back()) {
    auto& [var, before] = changed.back();
    if (before) {
      of_.bound_[var] = std::move(before);
    } else {
      of_.bound_.erase(var);
    }
  }
  of_.guards_.resize(guards_);
  of_.beyond_open_ = beyond_open_;
}

void AxisScope::enter(int st, const std::vector<Expr>& mins, const std::vector<Expr>& extents) {
  for (const int id : graph_.axes(st)) change(id) = {};
  const std::vector<int>& spatial = graph_.stage(st).spatial;
  for (size_t d = 0; d < spatial.size(); ++d) change(spatial[d]).extent = extents[d];
  parts_[static_cast<size_t>(st)].mins = mins;
}

// ---- extents ----

// The last part of a cut reduction is shorter. The loop over parts must be opened before the loop
// inside a part.
Expr AxisScope::root_extent(const AxisState& a) const {
  visit(a.extent, [&](const Expr& e) {
    const VarNode* v = e.as<VarNode>();
    if (!v || v->size || bound_.count(v)) return;
    throw_user_error("loop '" + a.name + "' of stage '" + graph_.stage(a.stage).name +
                         "' runs to a length that depends on '" + v->name +
                         "', which is not outside of it",
                     {}, "reorder '" + v->name + "' outside of '" + a.name + "'");
  });
  const auto here = [&](const auto& self, const Expr& e) -> Expr {
    HEDDLE_ICHECK(e.kind() != ExprKind::Load, "an extent that is read: " + a.name);
    if (const Expr there = replacement(e, a.stage); there.defined()) return there;
    return map_children(e, [&](const Expr& c) { return self(self, c); });
  };
  return loops_.simple(here(here, a.extent));
}

Expr AxisScope::extent(int id) {
  if (axis(id).extent) return axis(id).extent;
  const AxisState& a = s_.axes[static_cast<size_t>(id)];
  switch (a.origin) {
    case AxisOrigin::Root: return root_extent(a);
    case AxisOrigin::SplitOuter: {
      const int64_t f = s_.axes[a.parent].factor;
      const Expr e = loops_.simple(floordiv(extent(a.parent) + Expr(f - 1), Expr(f)));
      return change(id).extent = e;
    }
    case AxisOrigin::SplitInner: {
      // A query before the outer loop is open, such as that for a region, decides no tail.
      if (!is_sized(a.parent) || is_whole(a.parent)) run_whole(id);
      return Expr(s_.axes[a.parent].factor);
    }
    case AxisOrigin::Fused: {
      const Expr e = loops_.simple(extent(a.fuse_a) * extent(a.fuse_b));
      return change(id).extent = e;
    }
  }
  return {};
}

void AxisScope::run_whole(int inner) {
  if (axis(inner).extent) return;
  const int parent = s_.axes[inner].parent;
  const AxisState& split = s_.axes[parent];
  int64_t length = split.factor;
  // A part of constant length of an axis of varying length is no longer than itself, as it would be
  // at one size: a warp takes a tile of 8 columns and not one of 16.
  if (is_whole(parent) && !split.whole) {
    const Expr all = extent(parent);
    if (const int64_t* n = as_int(all); n && *n > 0) length = std::min(length, *n);
  }
  Axis& c = change(inner);
  c.full = true;
  c.extent = Expr(length);
}

void AxisScope::run_along(int id, int loop) {
  const Expr length = extent(loop);
  change(id).extent = length;
  bind(id, axis(loop).value);
}

void AxisScope::run_part(const AxisState& split, const Expr& begin, const Expr& extent) {
  Axis& inner = change(split.split_inner);
  inner.extent = extent;
  inner.begin = begin;
  inner.full |= inner.beyond;  // what is stored is guarded
}

void AxisScope::go_beyond(const AxisState& split, const Expr& full) {
  change(split.split_inner).beyond = true;
  come_after(split, full);
  ++beyond_open_;
}

bool AxisScope::is_sized(int id) const {
  const AxisState& a = s_.axes[static_cast<size_t>(id)];
  if (axis(id).extent) return !sizes_in(axis(id).extent).empty();
  if (a.origin == AxisOrigin::Root) return !sizes_in(a.extent).empty();
  if (a.origin == AxisOrigin::Fused) return is_sized(a.fuse_a) || is_sized(a.fuse_b);
  return is_sized(a.parent);
}

AxisScope::Iterations AxisScope::needed(int st, int loop, const Expr& all) {
  const StageState& x = graph_.stage(st);
  if (!x.reach.defined() && !x.skip.defined()) return {{}, all};
  int64_t each = 1;  // iterations of the axis in one of the loop
  int id = x.reduce[0];
  for (; id != loop && s_.axes[id].split_outer >= 0; id = s_.axes[id].split_outer)
    each *= s_.axes[id].factor;
  if (id != loop) return {{}, all};
  std::vector<VarBinding> first, last;
  for (size_t d = 0; d < x.spatial.size(); ++d) {
    const Var& v = s_.axes[x.spatial[d]].var;
    first.push_back({v, part(st).mins[d]});
    last.push_back({v, part(st).mins[d] + extent(x.spatial[d]) - Expr(1)});
  }
  const auto at = [](const Expr& bound, const std::vector<VarBinding>& point) {
    return max(substitute(bound, point), Expr(0));
  };
  Expr begin, end = all;
  if (x.skip.defined()) begin = loops_.simple(min(floordiv(at(x.skip, first), Expr(each)), all));
  if (x.reach.defined())
    end = min(all, each == 1 ? at(x.reach, last)
                             : floordiv(at(x.reach, last) + Expr(each - 1), Expr(each)));
  if (!begin.defined() || is_const(begin, 0)) return {{}, loops_.simple(end)};
  return {begin, loops_.simple(max(end - begin, Expr(0)))};
}

// ---- values ----

std::vector<int> AxisScope::bind(int id, const Expr& value) {
  std::vector<int> pending;
  bind(id, value, &pending);
  return pending;
}

void AxisScope::bind(int id, const Expr& value, std::vector<int>* pending) {
  const Expr begin = axis(id).begin;
  const Expr whole = begin.defined() ? value + begin : value, at = loops_.simple(whole);
  change(id).value = at;
  const AxisState& a = s_.axes[static_cast<size_t>(id)];
  switch (a.origin) {
    case AxisOrigin::Root: bind_root(id); return;
    case AxisOrigin::Fused: {
      const Expr outer = extent(a.fuse_a), inner = extent(a.fuse_b);
      // Of a quotient the parts are taken as it was written: its simple form may hide that they join
      // again.
      const Expr& of = a.fused_into >= 0 ? whole : at;
      bind(a.fuse_a, outer_part(a, of), pending);
      bind(a.fuse_b, is_const(outer, 1) ? of : floormod(of, inner), pending);
      return;
    }
    case AxisOrigin::SplitOuter:
    case AxisOrigin::SplitInner: bind_half(id, pending); return;
  }
}

void AxisScope::bind_root(int id) {
  const AxisState& a = s_.axes[static_cast<size_t>(id)];
  Expr at = axis(id).value;
  if (a.kind == AxisKind::Spatial) {
    const auto& spatial = graph_.stage(a.stage).spatial;
    const size_t d = std::find(spatial.begin(), spatial.end(), id) - spatial.begin();
    at = loops_.simple(part(a.stage).mins[d] + at);
  }
  Expr& bound = bound_[a.var.get()];
  changed_vars_.emplace_back(a.var.get(), bound);
  bound = at;
}

// One of the two loops of a split has a value.
void AxisScope::bind_half(int id, std::vector<int>* pending) {
  const AxisState& a = s_.axes[static_cast<size_t>(id)];
  const AxisState& split = s_.axes[a.parent];
  if (axis(split.split_outer).known() && axis(split.split_inner).known()) {
    bind_split(a.parent, pending);
  } else if (a.origin == AxisOrigin::SplitInner) {
    change(id).full = true;
  } else if (is_whole(a.parent)) {
    run_whole(split.split_inner);
  } else {
    pending->push_back(a.parent);
  }
}

void AxisScope::bind_split(int id, std::vector<int>* pending) {
  const AxisState& p = s_.axes[static_cast<size_t>(id)];
  const Axis &outer = axis(p.split_outer), &inner = axis(p.split_inner);
  const Expr at = loops_.simple(outer.value * Expr(p.factor) + inner.value);
  // The guard of an enclosing whole split implies the guard of this one.
  const bool implied = is_whole(id) && p.origin == AxisOrigin::SplitOuter && is_whole(p.parent);
  if (inner.full && !implied) {
    const Expr in_range = loops_.simple(at < extent(id));
    if (!is_const(in_range, 1) && !loops_.at_most(at + Expr(1), extent(id)))
      guards_.push_back(in_range);
  }
  bind(id, at, pending);
}

// The outer one of the parts of iteration `at` of a fused axis. A quotient by an extent that
// depends on sizes has no bound that is a number. A number of blocks is given the one that it has,
// without which the tiles of each block would have tails. Other quotients join the remainder again:
// (f / n)*n + f % n is f.
Expr AxisScope::outer_part(const AxisState& fused, const Expr& at) {
  const Expr outer = extent(fused.fuse_a), inner = extent(fused.fuse_b);
  if (is_const(outer, 1)) return Expr(0);
  const int64_t* count = as_int(outer);
  const Expr quotient = floordiv(at, inner);
  return !graph_.on_gpu() && count && !as_int(inner) && in_blocks(s_, fused.fuse_a)
             ? min(quotient, Expr(*count - 1))
             : quotient;
}

bool AxisScope::open(int id) const {
  if (axis(id).known()) return true;
  const AxisState& a = s_.axes[static_cast<size_t>(id)];
  if (a.split_outer >= 0) return open(a.split_outer) || open(a.split_inner);
  return a.fused_into >= 0 && open(a.fused_into);
}

SymInterval AxisScope::interval(int id) {
  const Axis& c = axis(id);
  if (c.known()) return {c.value, c.value, true};
  const AxisState& a = s_.axes[static_cast<size_t>(id)];
  if (a.split_outer >= 0 && (open(a.split_outer) || open(a.split_inner))) {
    const SymInterval o = interval(a.split_outer), i = interval(a.split_inner);
    const Expr f(a.factor);
    SymInterval r{loops_.simple(o.lo * f + i.lo), loops_.simple(o.hi * f + i.hi),
                  o.exact && i.exact};
    const Expr last = loops_.simple(extent(id) - Expr(1));
    const Axis &outer = axis(a.split_outer), &inner = axis(a.split_inner);
    if (!loops_.at_most(r.hi, last) && !(outer.known() && !inner.full)) {
      if (!is_whole(id) && !inner.beyond) r.hi = loops_.simple(min(r.hi, last));
      r.exact = false;
    }
    if (c.begin.defined())
      r = {loops_.simple(r.lo + c.begin), loops_.simple(r.hi + c.begin), r.exact};
    return r;
  }
  const Expr first = c.begin.defined() ? c.begin : Expr(0);
  const bool exact = a.fused_into < 0 || !open(a.fused_into);
  return {first, loops_.simple(first + extent(id) - Expr(1)), exact};
}

// ---- bodies' variables ----

const Expr& AxisScope::index(int id) const {
  return bound_.at(s_.axes[static_cast<size_t>(id)].var.get());
}

Expr AxisScope::replacement(const Expr& e, int st) const {
  if (const VarNode* v = e.as<VarNode>()) {
    const auto it = bound_.find(v);
    return it == bound_.end() ? Expr() : it->second;
  }
  return split_part(e, st);
}

Expr AxisScope::split_part(const Expr& e, int st) const {
  const Binary* b = e.as<Binary>();
  if (!b || (b->op != BinaryOp::FloorDiv && b->op != BinaryOp::FloorMod)) return {};
  const int64_t* by = as_int(b->b);
  if (!by || b->a.kind() != ExprKind::Var) return {};
  const std::vector<int>& spatial = graph_.stage(st).spatial;
  for (size_t d = 0; d < spatial.size(); ++d) {
    const AxisState& a = s_.axes[spatial[d]];
    if (!a.var.expr().same_as(b->a) || a.split_outer < 0 || a.factor != *by) continue;
    if (!is_const(part(st).mins[d], 0)) continue;
    const Axis &outer = axis(a.split_outer), &inner = axis(a.split_inner);
    if (outer.known() && inner.known())
      return b->op == BinaryOp::FloorDiv ? outer.value : inner.value;
  }
  return {};
}

}  // namespace heddle::lowering
