#include "lower/build_nest.h"

#include <algorithm>
#include <functional>
#include <map>

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/region.h"

namespace heddle {

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
  for (size_t i = 0; i < state.stages.size(); ++i) {
    if (state.stages[i].defined() && state.stages[i].placement != Placement::Inlined) go(static_cast<int>(i));
  }
  return order;
}

namespace {

std::vector<Expr> storage_shape(const StageState& p, const std::vector<int64_t>& extents) {
  std::vector<Expr> shape;
  if (p.layout.empty()) {
    for (int64_t e : extents) shape.push_back(Expr(e));
  }
  for (const auto& l : p.layout) {
    shape.push_back(Expr(l.modulus ? l.modulus : (extents[l.dim] + l.divisor - 1) / l.divisor));
  }
  return shape;
}

}  // namespace

StageBuffers root_buffers(const ScheduleState& state, int stage, Scope scope) {
  const StageState& p = state.stages[stage];
  std::vector<int64_t> extents;
  // An input has no axes of its own to ask; and neither has a layout.
  if (p.spatial.empty()) {
    for (const Expr& e : p.buffers[0]->shape) extents.push_back(*as_int(e));
  }
  for (int a : p.spatial) extents.push_back(state.axes[a].static_extent);
  StageBuffers out{stage, {}};
  for (const Buffer& b : p.buffers) {
    out.buffers.push_back(Buffer::make(b->name, b->dtype, storage_shape(p, extents), scope));
  }
  return out;
}

namespace {

enum class Mode { Compute, Init };

class NestBuilder {
 public:
  NestBuilder(const ScheduleState& s, const std::vector<StageBuffers>& external) : s_(s) {
    axes_.resize(s.axes.size());
    real_.resize(s.stages.size());
    root_min_.resize(s.stages.size());
    readers_.resize(s.stages.size());
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

  Stmt roots(const std::vector<int>& list, size_t from = 0) {
    if (from == list.size()) return {};
    int st = list[from];
    std::vector<Expr> mins, extents;
    for (int a : s_.stages[st].spatial) {
      mins.push_back(Expr(0));
      extents.push_back(s_.axes[a].extent);
    }
    bool temporary = real_[st].buffers.empty();
    if (temporary) real_[st] = realize(st, mins, extents, Scope::Global);
    Stmt nest = emit_stage(st, mins, extents);
    Stmt body = make_block({nest, roots(list, from + 1)});
    if (temporary) {
      for (const Buffer& b : real_[st].buffers) body = make_allocate(b, body);
    }
    return body;
  }

 private:
  struct AxisCtx {
    Expr extent, value;
    bool known() const { return value.get() != nullptr; }
    bool full = false;  ///< an inner axis bound before its outer one: it ran over the whole factor
  };
  struct Realization {
    std::vector<Buffer> buffers;
    std::vector<Expr> mins;
  };
  struct Region {
    std::vector<SymInterval> dims;
  };

  const StageState& stage(int st) const { return s_.stages[st]; }
  Expr simple(const Expr& e) const { return simplify(e, ranges_); }

  // ---- storage ----
  Realization realize(int st, const std::vector<Expr>& mins, const std::vector<Expr>& extents, Scope scope) {
    const StageState& p = stage(st);
    std::vector<int64_t> bound(extents.size());
    for (size_t d = 0; d < extents.size(); ++d) {
      int64_t most = s_.axes[p.spatial[d]].static_extent;
      bound[d] = std::max<int64_t>(1, std::min(most, range_of(extents[d], ranges_).max));
    }
    std::vector<Expr> shape = storage_shape(p, bound);
    Realization r;
    r.mins = mins;
    for (const Buffer& b : p.buffers) r.buffers.push_back(Buffer::make(b->name, b->dtype, shape, scope));
    return r;
  }

  std::vector<Expr> storage_indices(int st, const std::vector<Expr>& logical) const {
    const StageState& p = stage(st);
    std::vector<Expr> local;
    for (size_t d = 0; d < logical.size(); ++d) local.push_back(simple(logical[d] - real_[st].mins[d]));
    if (p.layout.empty()) return local;
    std::vector<Expr> out;
    for (const auto& l : p.layout) {
      Expr x = local[l.dim];
      if (l.divisor != 1) x = floordiv(x, Expr(l.divisor));
      if (l.modulus != 0) x = floormod(x, Expr(l.modulus));
      out.push_back(simple(x));
    }
    return out;
  }

  // The body expression in terms of loop variables and lowered buffers.
  Expr translate(const Expr& e, int reader) const {
    if (const VarNode* v = e.as<VarNode>()) {
      auto it = bound_.find(v);
      return it == bound_.end() ? e : it->second;
    }
    if (const Load* load = e.as<Load>()) {
      auto it = stage_of_.find(load->buffer.get());
      if (it == stage_of_.end()) return map_children(e, [&](const Expr& c) { return translate(c, reader); });
      int st = it->second;
      if (real_[st].buffers.empty()) {
        throw_user_error("stage '" + stage(st).name + "' is computed inside '" +
                             (stage(st).at_stage >= 0 ? stage(stage(st).at_stage).name : "?") +
                             "', but '" + stage(reader).name + "' reads it outside of there",
                         {}, "compute '" + stage(st).name + "' at a loop that encloses all its readers");
      }
      size_t component = 0;
      while (!(stage(st).buffers[component] == load->buffer)) ++component;
      std::vector<Expr> logical;
      for (const Expr& i : load->indices) logical.push_back(translate(i, reader));
      return make_load(real_[st].buffers[component], storage_indices(st, logical));
    }
    return map_children(e, [&](const Expr& c) { return translate(c, reader); });
  }

  // ---- loops ----
  Stmt emit_stage(int st, const std::vector<Expr>& mins, const std::vector<Expr>& extents) {
    const StageState& p = stage(st);
    for (size_t id = 0; id < s_.axes.size(); ++id) {
      if (s_.axes[id].defined && s_.axes[id].stage == st) axes_[id] = {};
    }
    for (size_t d = 0; d < p.spatial.size(); ++d) axes_[p.spatial[d]].extent = extents[d];
    root_min_[st] = mins;
    return emit_loops(st, p.leaves, 0, Mode::Compute);
  }

  Expr extent_of(int id) {
    AxisCtx& c = axes_[id];
    if (c.extent) return c.extent;
    const AxisState& a = s_.axes[id];
    switch (a.origin) {
      case AxisOrigin::Root: return simple(translate(a.extent, a.stage));
      case AxisOrigin::SplitOuter: {
        int64_t f = s_.axes[a.parent].factor;
        return c.extent = simple(floordiv(extent_of(a.parent) + Expr(f - 1), Expr(f)));
      }
      case AxisOrigin::SplitInner:
        c.full = true;
        return c.extent = Expr(s_.axes[a.parent].factor);
      case AxisOrigin::Fused:
        return c.extent = simple(extent_of(a.fuse_a) * extent_of(a.fuse_b));
    }
    return {};
  }

  Stmt emit_loops(int st, const std::vector<int>& leaves, size_t n, Mode mode) {
    if (n == leaves.size()) return mode == Mode::Init ? emit_init_store(st) : emit_store(st);
    const AxisState& a = s_.axes[leaves[n]];
    if (mode == Mode::Compute && a.kind == AxisKind::Reduce && is_first_reduce(leaves, n)) {
      // The accumulators that the remaining loops update start at the identity.
      std::vector<int> spatial;
      for (size_t i = n; i < leaves.size(); ++i) {
        if (s_.axes[leaves[i]].kind == AxisKind::Spatial) spatial.push_back(leaves[i]);
      }
      auto saved = axes_;
      auto saved_bound = bound_;
      size_t guards = guards_.size();
      Stmt init = emit_loops(st, spatial, 0, Mode::Init);
      axes_ = saved;
      bound_ = saved_bound;
      guards_.resize(guards);
      return make_block({init, emit_loop(st, leaves, n, mode)});
    }
    return emit_loop(st, leaves, n, mode);
  }

  bool is_first_reduce(const std::vector<int>& leaves, size_t n) const {
    for (size_t i = 0; i < n; ++i) {
      if (s_.axes[leaves[i]].kind == AxisKind::Reduce) return false;
    }
    return true;
  }

  Stmt emit_loop(int st, const std::vector<int>& leaves, size_t n, Mode mode) {
    int leaf = leaves[n];
    const AxisState& a = s_.axes[leaf];
    auto saved = axes_;
    auto saved_bound = bound_;
    size_t guards = guards_.size();
    Expr extent = extent_of(leaf);
    Interval range = range_of(extent, ranges_);
    Var v(a.name);
    const int64_t* known = as_int(extent);
    bool unit = known && *known == 1;
    if (!unit) ranges_.set(v, {0, std::max<int64_t>(0, range.max - 1)});
    std::vector<int> pending;
    bind(leaf, unit ? Expr(0) : v.expr(), &pending);
    Stmt body = decide(st, leaves, n, mode, pending, 0);
    axes_ = std::move(saved);
    bound_ = std::move(saved_bound);
    guards_.resize(guards);
    if (unit) return body;
    ranges_.erase(v);
    return make_for(v, extent, a.loop, body);
  }

  // Gives `id` a value and works out what follows for the axes it came from. Splits whose inner
  // extent depends on the value go to `pending`.
  void bind(int id, const Expr& value, std::vector<int>* pending) {
    axes_[id].value = simple(value);
    const AxisState& a = s_.axes[id];
    switch (a.origin) {
      case AxisOrigin::Root: {
        Expr at = axes_[id].value;
        if (a.kind == AxisKind::Spatial) {
          const auto& spatial = stage(a.stage).spatial;
          size_t d = std::find(spatial.begin(), spatial.end(), id) - spatial.begin();
          at = simple(root_min_[a.stage][d] + at);
        }
        bound_[a.var.get()] = at;
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
          if (i.full) {
            Expr in_range = simple(whole < extent_of(a.parent));
            if (!is_const(in_range, 1)) guards_.push_back(in_range);
          }
          bind(a.parent, whole, pending);
        } else if (a.origin == AxisOrigin::SplitOuter) {
          pending->push_back(a.parent);
        } else {
          axes_[id].full = true;
        }
        return;
      }
    }
  }

  // Whether loops below `id` need a constant extent to be worth their annotation.
  bool needs_const(int id) const {
    const AxisState& a = s_.axes[id];
    if (a.loop == LoopKind::Vectorized || a.loop == LoopKind::Unrolled) return true;
    if (a.split_outer >= 0) return needs_const(a.split_outer) || needs_const(a.split_inner);
    return a.fused_into >= 0 && needs_const(a.fused_into);
  }

  // Whether a stage computed between loop `n` and the loops below axis `id` has a region that spans
  // them: its own unrolled and vectorized loops then want to know how far.
  bool region_of_inside(int st, const std::vector<int>& leaves, size_t n, int id) const {
    size_t first = first_leaf(leaves, id);
    for (int p : order_) {
      const StageState& x = stage(p);
      if (x.placement != Placement::At || x.at_stage != st) continue;
      size_t at = std::find(leaves.begin(), leaves.end(), x.at_axis) - leaves.begin();
      if (at >= n && at < first) return true;
    }
    return false;
  }
  size_t first_leaf(const std::vector<int>& leaves, int id) const {
    const AxisState& a = s_.axes[id];
    if (a.split_outer >= 0) return std::min(first_leaf(leaves, a.split_outer), first_leaf(leaves, a.split_inner));
    if (a.fused_into >= 0) return first_leaf(leaves, a.fused_into);
    return std::find(leaves.begin(), leaves.end(), id) - leaves.begin();
  }

  Stmt decide(int st, const std::vector<int>& leaves, size_t n, Mode mode, const std::vector<int>& pending,
              size_t i) {
    if (i == pending.size()) return inside(st, leaves, n, mode);
    const AxisState& p = s_.axes[pending[i]];
    AxisCtx& inner = axes_[p.split_inner];
    if (inner.full || inner.known()) return decide(st, leaves, n, mode, pending, i + 1);
    Expr whole = extent_of(pending[i]), outer = axes_[p.split_outer].value, factor(p.factor);
    auto with = [&](const Expr& extent) {
      auto saved = axes_;
      auto saved_bound = bound_;
      size_t guards = guards_.size();
      axes_[p.split_inner].extent = extent;
      Stmt r = decide(st, leaves, n, mode, pending, i + 1);
      axes_ = std::move(saved);
      bound_ = std::move(saved_bound);
      guards_.resize(guards);
      return r;
    };
    if (is_const(simple(floormod(whole, factor)), 0)) return with(factor);
    Expr mains = simple(floordiv(whole, factor));  // how many outer iterations are full
    Expr is_main = simple(outer < mains);
    if (is_const(is_main, 1)) return with(factor);
    Expr rest = simple(whole - mains * factor);
    if (is_const(is_main, 0)) return with(rest);
    if (!needs_const(p.split_inner) && !region_of_inside(st, leaves, n, p.split_inner)) return with(simple(min(factor, whole - outer * factor)));
    const VarNode* v = outer.as<VarNode>();
    const int64_t* m = as_int(mains);
    if (!v || !m) return make_if(is_main, with(factor), with(rest));
    // Both copies know where they are.
    Interval all = ranges_.get(v);
    Var var = var_of(outer);
    ranges_.set(var, {all.min, std::min(all.max, *m - 1)});
    Stmt main = with(factor);
    ranges_.set(var, {std::max(all.min, *m), all.max});
    Stmt tail = with(rest);
    ranges_.set(var, all);
    return make_if(is_main, main, tail);
  }

  static Var var_of(const Expr& e) { return Var::from(e); }

  // What runs inside loop `leaves[n]`: the stages computed here, then the rest of the loops.
  Stmt inside(int st, const std::vector<int>& leaves, size_t n, Mode mode) {
    if (mode == Mode::Init) return emit_loops(st, leaves, n + 1, mode);
    std::vector<int> here;
    for (int p : order_) {
      const StageState& x = stage(p);
      if (x.placement == Placement::At && x.at_stage == st && x.at_axis == leaves[n]) here.push_back(p);
    }
    if (here.empty()) return emit_loops(st, leaves, n + 1, mode);
    std::map<int, Region> memo;
    std::vector<std::vector<Expr>> mins(here.size()), extents(here.size());
    for (size_t i = 0; i < here.size(); ++i) {
      const Region& r = demand(here[i], st, n, &memo);
      for (size_t d = 0; d < r.dims.size(); ++d) {
        mins[i].push_back(r.dims[d].lo);
        extents[i].push_back(simple(r.dims[d].hi - r.dims[d].lo + Expr(1)));
      }
    }
    std::vector<Stmt> seq;
    std::vector<Realization> saved;
    std::vector<Buffer> buffers;
    for (size_t i = 0; i < here.size(); ++i) {
      saved.push_back(real_[here[i]]);
      real_[here[i]] = realize(here[i], mins[i], extents[i], Scope::Local);
      for (const Buffer& b : real_[here[i]].buffers) buffers.push_back(b);
      seq.push_back(emit_stage(here[i], mins[i], extents[i]));
    }
    seq.push_back(emit_loops(st, leaves, n + 1, mode));
    for (size_t i = 0; i < here.size(); ++i) real_[here[i]] = saved[i];
    Stmt body = make_block(std::move(seq));
    for (const Buffer& b : buffers) body = make_allocate(b, body);
    return body;
  }

  // ---- regions ----
  // Where axis `id` can be, its loops that are not open yet ranging over all they will.
  SymInterval axis_interval(int id) {
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
        if (!prove(r.hi <= last, ranges_) && !(axes_[a.split_outer].known() && !axes_[a.split_inner].full)) {
          r.hi = simple(min(r.hi, last));
          r.exact = false;
        }
        return r;
      }
    }
    if (a.fused_into >= 0 && open(a.fused_into)) return {Expr(0), simple(extent_of(id) - Expr(1)), false};
    return {Expr(0), simple(extent_of(id) - Expr(1)), true};
  }

  // Whether some loop made from axis `id` is open.
  bool open(int id) const {
    if (axes_[id].value) return true;
    const AxisState& a = s_.axes[id];
    if (a.split_outer >= 0) return open(a.split_outer) || open(a.split_inner);
    return a.fused_into >= 0 && open(a.fused_into);
  }

  // Whether stage `q` runs inside loop `n` of `host`.
  bool runs_inside(int q, int host, size_t n) const {
    while (q >= 0 && q != host) {
      const StageState& x = stage(q);
      if (x.placement != Placement::At) return false;
      if (x.at_stage == host) {
        const auto& leaves = stage(host).leaves;
        size_t at = std::find(leaves.begin(), leaves.end(), x.at_axis) - leaves.begin();
        return at >= n && at < leaves.size();
      }
      q = x.at_stage;
    }
    return q == host;
  }

  // The part of stage `p` that everything inside loop `n` of `host` reads.
  const Region& demand(int p, int host, size_t n, std::map<int, Region>* memo) {
    auto it = memo->find(p);
    if (it != memo->end()) return it->second;
    Region r;
    r.dims.resize(stage(p).spatial.size());
    bool any = false;
    if (readers_[p].empty()) throw_user_error("nothing reads stage '" + stage(p).name + "'");
    for (int q : readers_[p]) {
      if (!runs_inside(q, host, n)) {
        throw_user_error("stage '" + stage(p).name + "' is computed at loop '" +
                             s_.axes[stage(host).leaves[n]].name + "' of '" + stage(host).name + "', but '" +
                             stage(q).name + "' reads it outside of that loop",
                         {}, "choose a loop that encloses every reader");
      }
      SymEnv env = reader_env(q, host, n, memo);
      collect_reads(q, p, env, &r, &any);
    }
    for (size_t d = 0; d < r.dims.size(); ++d) {
      Expr last(s_.axes[stage(p).spatial[d]].static_extent - 1);
      SymInterval& x = r.dims[d];
      if (!x.bounded()) {
        x = {Expr(0), last, false};
      } else if (!x.exact) {
        if (!prove(Expr(0) <= x.lo, ranges_)) x.lo = simple(max(x.lo, Expr(0)));
        if (!prove(x.hi <= last, ranges_)) x.hi = simple(min(x.hi, last));
      }
    }
    return (*memo)[p] = std::move(r);
  }

  SymEnv reader_env(int q, int host, size_t n, std::map<int, Region>* memo) {
    SymEnv env;
    const StageState& x = stage(q);
    if (q == host) {
      for (size_t d = 0; d < x.spatial.size(); ++d) {
        SymInterval i = axis_interval(x.spatial[d]);
        const Expr& m = root_min_[q][d];
        if (!guards_.empty()) i.exact = false;
        env[s_.axes[x.spatial[d]].var.get()] = {simple(m + i.lo), simple(m + i.hi), i.exact};
      }
      for (int a : x.reduce) env[s_.axes[a].var.get()] = reduce_interval(a, axis_interval(a), env);
      return env;
    }
    const Region& region = demand(q, host, n, memo);
    for (size_t d = 0; d < x.spatial.size(); ++d) env[s_.axes[x.spatial[d]].var.get()] = region.dims[d];
    for (int a : x.reduce) {
      SymInterval whole{Expr(0), s_.axes[a].extent - Expr(1), true};
      env[s_.axes[a].var.get()] = reduce_interval(a, whole, env);
    }
    return env;
  }

  // The extent of a reduce axis may depend on spatial axes (the last block of an rfactor).
  SymInterval reduce_interval(int a, SymInterval i, const SymEnv& env) {
    if (as_int(s_.axes[a].extent)) return i;
    SymInterval hi = interval_of(i.hi, env, ranges_);
    return {i.lo, hi.hi, i.exact && hi.exact && hi.lo.same_as(hi.hi)};
  }

  void collect_reads(int q, int p, const SymEnv& env, Region* r, bool* any) {
    for (const Expr& body : stage(q).bodies) {
      collect_reads_in(body, p, env, false, r, any);
    }
  }

  void collect_reads_in(const Expr& e, int p, const SymEnv& env, bool guarded, Region* r, bool* any) {
    if (const Load* load = e.as<Load>()) {
      auto it = stage_of_.find(load->buffer.get());
      if (it != stage_of_.end() && it->second == p) {
        for (size_t d = 0; d < load->indices.size(); ++d) {
          SymInterval x = interval_of(load->indices[d], env, ranges_);
          if (guarded) x.exact = false;
          r->dims[d] = *any ? hull(r->dims[d], x, ranges_) : x;
        }
        *any = true;
      }
    }
    bool select = e.kind() == ExprKind::Select;
    for_each_child(e, [&](const Expr& c) { collect_reads_in(c, p, env, guarded || select, r, any); });
  }

  // ---- bodies ----
  std::vector<Expr> own_indices(int st) const {
    std::vector<Expr> logical;
    for (int a : stage(st).spatial) logical.push_back(bound_.at(s_.axes[a].var.get()));
    return storage_indices(st, logical);
  }

  Stmt guarded(Stmt s) const {
    for (const Expr& g : guards_) s = make_if(g, s);
    return s;
  }

  const Reduce& reduction(int st) const {
    const Reduce* r = stage(st).bodies[0].as<Reduce>();
    HEDDLE_ICHECK(r != nullptr, "a reduction stage without a Reduce body: " + stage(st).name);
    HEDDLE_ICHECK(stage(st).buffers.size() == r->combiner->size(),
                  "stage '" + stage(st).name + "' keeps only some components of its tuple reduction");
    return *r;
  }

  Stmt emit_init_store(int st) {
    const Reduce& r = reduction(st);
    std::vector<Expr> at = own_indices(st);
    std::vector<Stmt> out;
    for (size_t c = 0; c < stage(st).buffers.size(); ++c) {
      out.push_back(make_store(real_[st].buffers[c], at, r.combiner->identity[component(st, c)]));
    }
    return guarded(make_block(std::move(out)));
  }

  int component(int st, size_t output) const { return stage(st).bodies[output].as<Reduce>()->index; }

  Stmt emit_store(int st) {
    const StageState& p = stage(st);
    std::vector<Expr> at = own_indices(st);
    std::vector<Stmt> out;
    if (!p.is_reduction()) {
      for (size_t c = 0; c < p.buffers.size(); ++c) {
        out.push_back(make_store(real_[st].buffers[c], at, simple(translate(p.bodies[c], st)), p.nontemporal));
      }
      return guarded(make_block(std::move(out)));
    }
    const Reduce& r = reduction(st);
    std::vector<VarBinding> bind;
    for (size_t c = 0; c < p.buffers.size(); ++c) {
      int k = component(st, c);
      bind.push_back({r.combiner->lhs[k], make_load(real_[st].buffers[c], at)});
    }
    for (size_t k = 0; k < r.combiner->size(); ++k) {
      bind.push_back({r.combiner->rhs[k], simple(translate(r.sources[k], st))});
    }
    if (p.buffers.size() == 1) {
      return guarded(make_store(real_[st].buffers[0], at, substitute(r.combiner->result[0], bind)));
    }
    // All components are computed before any is stored: each may need the old value of the others.
    std::vector<Var> fresh;
    for (size_t c = 0; c < p.buffers.size(); ++c) {
      fresh.emplace_back(p.buffers[c]->name + ".new", p.buffers[c]->dtype);
      out.push_back(make_store(real_[st].buffers[c], at, fresh[c]));
    }
    Stmt s = make_block(std::move(out));
    for (size_t c = p.buffers.size(); c-- > 0;) {
      s = make_let(fresh[c], substitute(r.combiner->result[component(st, c)], bind), s);
    }
    return guarded(s);
  }

  const ScheduleState& s_;
  std::vector<int> order_;
  std::unordered_map<const BufferNode*, int> stage_of_;
  std::vector<std::vector<int>> readers_;
  std::vector<AxisCtx> axes_;
  std::vector<Realization> real_;
  std::vector<std::vector<Expr>> root_min_;
  std::unordered_map<const VarNode*, Expr> bound_;  ///< value of each root variable
  std::vector<Expr> guards_;
  Ranges ranges_;
};

}  // namespace

Stmt build_nest(const ScheduleState& state, const std::vector<int>& roots,
                const std::vector<StageBuffers>& external) {
  return NestBuilder(state, external).roots(roots);
}

}  // namespace heddle
