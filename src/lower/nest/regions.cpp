// Regions: the part of a stage that the loops that are not open yet will read.
#include <algorithm>

#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "lower/nest/nest_builder.h"

namespace heddle {

SymInterval NestBuilder::axis_interval(int id) {
  const AxisCtx& c = axes_[id];
  if (c.value) return {c.value, c.value, true};
  const AxisState& a = s_.axes[id];
  if (a.split_outer >= 0) {
    bool o_open = open(a.split_outer), i_open = open(a.split_inner);
    if (o_open || i_open) {
      SymInterval o = axis_interval(a.split_outer), i = axis_interval(a.split_inner);
      Expr f(a.factor);
      SymInterval r{simple(o.lo * f + i.lo), simple(o.hi * f + i.hi), o.exact && i.exact};
      Expr last = simple(extent_of(id) - Expr(1));
      if (!at_most(r.hi, last) && !(axes_[a.split_outer].known() && !axes_[a.split_inner].full)) {
        if (!is_whole(id) && !axes_[a.split_inner].beyond) r.hi = simple(min(r.hi, last));
        r.exact = false;
      }
      if (c.begin.defined()) r = {simple(r.lo + c.begin), simple(r.hi + c.begin), r.exact};
      return r;
    }
  }
  const Expr first = c.begin.defined() ? c.begin : Expr(0);
  const bool exact = a.fused_into < 0 || !open(a.fused_into);
  return {first, simple(first + extent_of(id) - Expr(1)), exact};
}

bool NestBuilder::open(int id) const {
  if (axes_[id].value) return true;
  const AxisState& a = s_.axes[id];
  if (a.split_outer >= 0) return open(a.split_outer) || open(a.split_inner);
  return a.fused_into >= 0 && open(a.fused_into);
}

const NestBuilder::Region& NestBuilder::demand(int p, int host, size_t n,
                                               std::map<int, Region>* memo) {
  auto it = memo->find(p);
  if (it != memo->end()) return it->second;
  Region r;
  if (graph_.follows(p, host)) {
    r.dims = held_[p];
    return (*memo)[p] = std::move(r);
  }
  r.dims.resize(stage(p).spatial.size());
  bool any = false;
  if (graph_.readers(p).empty()) throw_user_error("nothing reads stage '" + stage(p).name + "'");
  for (int q : graph_.readers(p)) {
    if (!graph_.runs_inside(q, host, n)) {
      if (graph_.kept_around(p, host, n)) continue;  // its producers are computed here nevertheless
      throw_user_error("stage '" + stage(p).name + "' is computed at loop '" +
                           s_.axes[stage(host).leaves[n]].name + "' of '" + stage(host).name +
                           "', but '" + stage(q).name + "' reads it outside of that loop",
                       {}, "choose a loop that encloses every reader");
    }
    SymEnv env = reader_env(q, host, n, memo);
    const OpenParts parts = q == host ? open_parts(host, &env) : OpenParts();
    collect_reads(q, p, env, parts, &r, &any);
    for (const Var& f : parts.loops) ranges_.erase(f);
  }
  for (size_t d = 0; d < r.dims.size(); ++d) {
    const AxisState& axis = s_.axes[stage(p).spatial[d]];
    const bool sized = is_symbolic(axis.extent);
    const Expr last = sized ? simple(axis.extent - Expr(1)) : Expr(axis.static_extent - 1);
    SymInterval& x = r.dims[d];
    if (!x.bounded()) {
      x = {Expr(0), last, false};
    } else if (!x.exact) {
      if (!prove(Expr(0) <= x.lo, ranges_)) x.lo = simple(max(x.lo, Expr(0)));
      if (at_most(x.hi, last)) continue;
      // All threads of a GPU run the same iterations, so that all of them reach its barriers.
      // Vectors at the end of an axis are whole, too.
      const bool varies = sized || !sizes_in(x.hi).empty();
      if ((on_gpu_ || beyond_open_ > 0) && varies && as_int(simple(x.hi - x.lo))) {
        r.beyond |= uint64_t{1} << d;
      } else {
        x.hi = simple(min(x.hi, last));
      }
    }
  }
  return (*memo)[p] = std::move(r);
}

SymEnv NestBuilder::reader_env(int q, int host, size_t n, std::map<int, Region>* memo) {
  SymEnv env;
  const StageState& x = stage(q);
  if (q == host) {
    for (size_t d = 0; d < x.spatial.size(); ++d) {
      SymInterval i = axis_interval(x.spatial[d]);
      const Expr& m = root_min_[q][d];
      if (!guards_.empty() || beyond_[q]) i.exact = false;
      env[s_.axes[x.spatial[d]].var.get()] = {simple(m + i.lo), simple(m + i.hi), i.exact};
    }
    for (int a : x.reduce) env[s_.axes[a].var.get()] = reduce_interval(a, axis_interval(a), env);
    return env;
  }
  const Region& region = demand(q, host, n, memo);
  for (size_t d = 0; d < x.spatial.size(); ++d)
    env[s_.axes[x.spatial[d]].var.get()] = region.dims[d];
  for (int a : x.reduce) {
    SymInterval whole{Expr(0), s_.axes[a].extent - Expr(1), true};
    if (graph_.follows(q, host) && a == x.reduce[0]) whole = axis_interval(x.along);
    env[s_.axes[a].var.get()] = reduce_interval(a, whole, env);
  }
  return env;
}

SymInterval NestBuilder::reduce_interval(int a, SymInterval i, const SymEnv& env) {
  if (as_int(s_.axes[a].extent) || is_symbolic(s_.axes[a].extent)) return i;
  SymInterval hi = interval_of(i.hi, env, ranges_);
  return {i.lo, hi.hi, i.exact && hi.exact && hi.lo.same_as(hi.hi)};
}

NestBuilder::OpenParts NestBuilder::open_parts(int host, SymEnv* env) {
  OpenParts out;
  std::map<int, Expr> members;  // of fused loops, by axis
  for (int id : graph_.axes(host)) {
    const AxisState& a = s_.axes[id];
    if (a.origin != AxisOrigin::Fused || a.fused_into >= 0 || axes_[id].known() || !open(id))
      continue;
    take_fusion_apart(id, open_loop(id, env, &out).expr(), &members);
  }
  const auto& spatial = stage(host).spatial;
  for (size_t d = 0; d < spatial.size(); ++d) {
    const AxisState& a = s_.axes[spatial[d]];
    if (axes_[spatial[d]].known()) continue;
    Expr value;
    if (const auto it = members.find(spatial[d]); it != members.end()) {
      value = it->second;
    } else if (a.split_outer >= 0 && axes_[a.split_outer].known() &&
               is_const(simple(floormod(extent_of(spatial[d]), Expr(a.factor))), 0)) {
      const auto inner = members.find(a.split_inner);
      value = axes_[a.split_outer].value * Expr(a.factor) +
              (inner != members.end() ? inner->second : open_loop(a.split_inner, env, &out).expr());
    } else {
      continue;
    }
    out.axes.push_back({a.var, root_min_[host][d] + value});
  }
  return out;
}

// A variable for the iterations of `axis`, of which some loops may be open already.
Var NestBuilder::open_loop(int axis, SymEnv* env, OpenParts* out) {
  const Var f(s_.axes[axis].name);
  SymInterval at = axis_interval(axis);
  if (!guards_.empty()) at.exact = false;
  (*env)[f.get()] = at;
  const Interval n = range_of(extent_of(axis), ranges_);
  ranges_.set(f, {0, std::max<int64_t>(0, n.max - 1)});
  out->loops.push_back(f);
  return f;
}

void NestBuilder::take_fusion_apart(int axis, const Expr& value, std::map<int, Expr>* members) {
  const AxisState& a = s_.axes[axis];
  if (a.origin != AxisOrigin::Fused) {
    const Expr& begin = axes_[axis].begin;
    members->emplace(axis, begin.defined() ? value + begin : value);
    return;
  }
  const Expr inner = extent_of(a.fuse_b);
  take_fusion_apart(a.fuse_a, floordiv(value, inner), members);
  take_fusion_apart(a.fuse_b, floormod(value, inner), members);
}

// The interval of an index. It is computed from the open parts where the index needs no quotient or
// remainder of them, otherwise from the axes.
SymInterval NestBuilder::index_interval(const Expr& index, const SymEnv& env,
                                        const OpenParts& parts) {
  if (!parts.axes.empty() && index.kind() != ExprKind::Var) {
    const Expr together = simplify(substitute(index, parts.axes), ranges_);
    bool by_loop = false, apart = false;
    visit(together, [&](const Expr& e) {
      const Binary* b = e.as<Binary>();
      apart |= b && (b->op == BinaryOp::FloorDiv || b->op == BinaryOp::FloorMod);
    });
    for (const Var& f : parts.loops) by_loop |= uses_var(together, f);
    if (by_loop && !apart) return interval_of(together, env, ranges_);
  }
  return interval_of(index, env, ranges_);
}

void NestBuilder::collect_reads(int q, int p, const SymEnv& env, const OpenParts& parts, Region* r,
                                bool* any) {
  SeenNodes seen[2];
  for (const Expr& body : stage(q).bodies) {
    collect_reads_in(body, p, env, parts, false, seen, r, any);
  }
}

// `seen` holds the shared nodes that were visited without and with a guard.
void NestBuilder::collect_reads_in(const Expr& e, int p, const SymEnv& env, const OpenParts& parts,
                                   bool guarded, SeenNodes (&seen)[2], Region* r, bool* any) {
  if (!seen[guarded].first(e)) return;
  if (const Load* load = e.as<Load>()) {
    if (graph_.stage_of(load->buffer) == p) {
      for (size_t d = 0; d < load->indices.size(); ++d) {
        SymInterval x = index_interval(load->indices[d], env, parts);
        if (guarded) x.exact = false;
        r->dims[d] = *any ? hull(r->dims[d], x, ranges_) : x;
      }
      *any = true;
    }
  }
  bool select = e.kind() == ExprKind::Select;
  for_each_child(e, [&](const Expr& c) {
    collect_reads_in(c, p, env, parts, guarded || select, seen, r, any);
  });
}

}  // namespace heddle
