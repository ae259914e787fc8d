// Storage of stages and the statements at the bottom of their loops.
#include <algorithm>

#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "lower/nest/nest_builder.h"

namespace heddle {

std::vector<Expr> storage_shape(const StageState& p, const std::vector<Expr>& extents) {
  std::vector<Expr> shape;
  if (p.layout.empty()) shape = extents;
  for (const auto& l : p.layout) {
    shape.push_back(l.modulus ? Expr(l.modulus)
                              : floordiv(extents[l.dim] + Expr(l.divisor - 1), Expr(l.divisor)));
  }
  if (p.pad > 0 && !shape.empty()) shape.back() = shape.back() + Expr(p.pad);
  for (Expr& e : shape) e = simplify(e);
  return shape;
}

StageBuffers root_buffers(const ScheduleState& state, int stage, Scope scope) {
  const StageState& p = state.stages[stage];
  std::vector<Expr> extents;
  // An input has neither axes nor a layout.
  if (p.spatial.empty()) extents = p.buffers[0]->shape;
  for (int a : p.spatial) {
    const AxisState& axis = state.axes[a];
    extents.push_back(is_symbolic(axis.extent) ? axis.extent : Expr(axis.static_extent));
  }
  StageBuffers out{stage, {}};
  for (const Buffer& b : p.buffers) {
    out.buffers.push_back(Buffer::make(b->name, b->dtype, storage_shape(p, extents), scope));
  }
  return out;
}

NestBuilder::Realization NestBuilder::realize(int st, const std::vector<Expr>& mins,
                                              const std::vector<Expr>& extents, Scope scope) {
  const StageState& p = stage(st);
  std::vector<Expr> bound(extents.size());
  bool first = scope == Scope::Global;  // whether the dimensions before this one have one element
  for (size_t d = 0; d < extents.size(); ++d) {
    int64_t most = beyond_[st] ? INT64_MAX : s_.axes[p.spatial[d]].static_extent;
    bound[d] = Expr(std::max<int64_t>(1, std::min(most, upper_bound(extents[d], ranges_))));
    // No stride that is used depends on the first dimension, so it need not be as large as it can
    // be.
    if (first && is_symbolic(extents[d])) bound[d] = extents[d];
    first = first && is_const(bound[d], 1);
  }
  std::vector<Expr> shape = storage_shape(p, bound);
  Realization r;
  r.mins = mins;
  for (const Buffer& b : p.buffers)
    r.buffers.push_back(Buffer::make(b->name, b->dtype, shape, scope, b->windows));
  return r;
}

std::vector<Expr> NestBuilder::storage_indices(int st, const std::vector<Expr>& logical) const {
  const StageState& p = stage(st);
  std::vector<Expr> local;
  for (size_t d = 0; d < logical.size(); ++d)
    local.push_back(simple_access(logical[d] - real_[st].mins[d]));
  if (p.layout.empty()) return local;
  std::vector<Expr> out;
  for (const auto& l : p.layout) {
    Expr x = local[l.dim];
    if (l.divisor != 1) x = floordiv(x, Expr(l.divisor));
    if (l.modulus != 0) x = floormod(x, Expr(l.modulus));
    out.push_back(simple_access(x));
  }
  return out;
}

Expr NestBuilder::translate(const Expr& e, int reader) const {
  RewriteMemo memo;
  return translate(e, reader, memo);
}

Expr NestBuilder::translate(const Expr& e, int reader, RewriteMemo& memo) const {
  return memo(e, [&](const Expr& x) { return translate_node(x, reader, memo); });
}

Expr NestBuilder::translate_node(const Expr& e, int reader, RewriteMemo& memo) const {
  if (const VarNode* v = e.as<VarNode>()) {
    auto it = bound_.find(v);
    return it == bound_.end() ? e : it->second;
  }
  if (const Load* load = e.as<Load>()) {
    const int st = graph_.stage_of(load->buffer);
    if (st < 0) return map_children(e, [&](const Expr& c) { return translate(c, reader, memo); });
    if (real_[st].buffers.empty()) {
      throw_user_error("stage '" + stage(st).name + "' is computed inside '" +
                           (stage(st).at_stage >= 0 ? stage(stage(st).at_stage).name : "?") +
                           "', but '" + stage(reader).name + "' reads it outside of there",
                       {},
                       "compute '" + stage(st).name + "' at a loop that encloses all its readers");
    }
    size_t component = 0;
    while (!(stage(st).buffers[component] == load->buffer)) ++component;
    std::vector<Expr> logical;
    for (const Expr& i : load->indices) logical.push_back(translate(i, reader, memo));
    const Expr there = make_load(real_[st].buffers[component], storage_indices(st, logical));
    const uint64_t beyond = beyond_ends(*load, reader);
    return beyond ? within(there, st, logical, beyond) : there;
  }
  if (const Expr part = split_part(e, reader); part.defined()) return part;
  return map_children(e, [&](const Expr& c) { return translate(c, reader, memo); });
}

uint64_t NestBuilder::beyond_ends(const Load& load, int reader) const {
  // All axes of a tile on a GPU go beyond their ends together.
  if (!beyond_[reader] || on_gpu_) return beyond_[reader] ? ~uint64_t{0} : 0;
  uint64_t dims = 0;
  const std::vector<int>& own = stage(reader).spatial;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    for (size_t axis = 0; axis < own.size(); ++axis) {
      if ((beyond_[reader] >> axis & 1) && uses_var(load.indices[d], s_.axes[own[axis]].var))
        dims |= uint64_t{1} << d;
    }
  }
  return dims;
}

Expr NestBuilder::within(const Expr& load, int st, const std::vector<Expr>& logical,
                         uint64_t beyond) const {
  if (beyond_[st]) return load;
  Expr inside;
  for (size_t d = 0; d < logical.size(); ++d) {
    // An input has no axes.
    const Expr extent = stage(st).spatial.empty() ? stage(st).buffers[0]->shape[d]
                                                  : s_.axes[stage(st).spatial[d]].extent;
    const auto require = [&](const Expr& here) {
      inside = inside.defined() ? inside && here : here;
    };
    if (!(beyond >> d & 1)) continue;
    // What a GPU reads along other axes than those of varying length lies inside of them.
    if (on_gpu_ && !is_symbolic(extent)) continue;
    if (!on_gpu_ && !prove(Expr(0) <= logical[d], ranges_)) require(Expr(0) <= logical[d]);
    const Expr here = simple(logical[d] < extent);
    if (!is_const(here, 1) && !at_most(logical[d] + Expr(1), extent)) require(here);
  }
  return inside.defined() ? make_select(inside, load, make_const(load.dtype(), 0)) : load;
}

Expr NestBuilder::split_part(const Expr& e, int reader) const {
  const Binary* b = e.as<Binary>();
  if (!b || (b->op != BinaryOp::FloorDiv && b->op != BinaryOp::FloorMod)) return {};
  const int64_t* by = as_int(b->b);
  if (!by || b->a.kind() != ExprKind::Var) return {};
  for (size_t d = 0; d < stage(reader).spatial.size(); ++d) {
    const AxisState& a = s_.axes[stage(reader).spatial[d]];
    if (!a.var.expr().same_as(b->a) || a.split_outer < 0 || a.factor != *by) continue;
    if (!is_const(root_min_[reader][d], 0)) continue;
    const AxisCtx& part = axes_[b->op == BinaryOp::FloorDiv ? a.split_outer : a.split_inner];
    if (axes_[a.split_outer].known() && axes_[a.split_inner].known()) return part.value;
  }
  return {};
}

std::vector<Expr> NestBuilder::own_indices(int st) const {
  std::vector<Expr> logical;
  for (int a : stage(st).spatial) logical.push_back(bound_.at(s_.axes[a].var.get()));
  return storage_indices(st, logical);
}

Stmt NestBuilder::guarded(Stmt s) const {
  for (const Expr& g : guards_) s = make_if(g, s);
  return s;
}

const Reduce& NestBuilder::reduction(int st) const {
  const Reduce* r = stage(st).bodies[0].as<Reduce>();
  HEDDLE_ICHECK(r != nullptr, "a reduction stage without a Reduce body: " + stage(st).name);
  HEDDLE_ICHECK(stage(st).buffers.size() == r->combiner->size(),
                "stage '" + stage(st).name + "' keeps only some components of its tuple reduction");
  return *r;
}

Stmt NestBuilder::emit_init_store(int st) {
  const Reduce& r = reduction(st);
  std::vector<Expr> at = own_indices(st);
  std::vector<Stmt> out;
  for (size_t c = 0; c < stage(st).buffers.size(); ++c) {
    out.push_back(make_store(real_[st].buffers[c], at, r.combiner->identity[component(st, c)]));
  }
  return guarded(make_block(std::move(out)));
}

// Emits a prefetch before every distinct read of the hinted stage. The prefetch may go beyond the
// end of the buffer, which is harmless.
void NestBuilder::emit_prefetches(int st, const StageState::PrefetchHint& hint,
                                  std::vector<Stmt>* out) const {
  std::vector<Expr> seen;
  for (const Expr& body : stage(st).bodies) {
    visit(body, [&](const Expr& e) {
      const Load* load = e.as<Load>();
      if (!load || graph_.stage_of(load->buffer) != hint.stage) return;
      for (const Expr& s : seen) {
        if (equal(s, e)) return;
      }
      seen.push_back(e);
      std::vector<Expr> ahead = load->indices;
      ahead[hint.dim] = ahead[hint.dim] + Expr(hint.distance);
      Expr there = translate(make_load(load->buffer, ahead), st);
      if (const Select* within = there.as<Select>()) there = within->on_true;
      out->push_back(make_prefetch(there.as<Load>()->buffer, there.as<Load>()->indices));
    });
  }
}

Stmt NestBuilder::emit_store(int st) {
  const StageState& p = stage(st);
  std::vector<Expr> at = own_indices(st);
  std::vector<Stmt> out;
  for (const auto& hint : p.prefetches) emit_prefetches(st, hint, &out);
  if (!p.is_reduction()) {
    for (size_t c = 0; c < p.buffers.size(); ++c) {
      out.push_back(
          make_store(real_[st].buffers[c], at, simple_access(translate(p.bodies[c], st)), p.hints));
    }
    return guarded(make_block(std::move(out)));
  }
  const Reduce& r = reduction(st);
  std::vector<VarBinding> bind;
  for (size_t c = 0; c < p.buffers.size(); ++c) {
    int k = component(st, c);
    bind.push_back({r.combiner->lhs[k], make_load(real_[st].buffers[c], at)});
  }
  // Values that several components use are read once, before any component is decided. On a GPU the
  // compiler does this, and reductions over threads are recognised by their form.
  std::vector<std::pair<Var, Expr>> read;
  for (size_t k = 0; k < r.combiner->size(); ++k) {
    Expr value = simple_access(translate(r.sources[k], st));
    if (p.buffers.size() > 1 && !on_gpu_ && value.kind() == ExprKind::Load) {
      read.emplace_back(Var(r.combiner->rhs[k]->name, value.dtype()), value);
      value = read.back().first;
    }
    bind.push_back({r.combiner->rhs[k], value});
  }
  if (p.buffers.size() == 1) {
    const StoreHint hint =
        has(p.hints, StoreHint::DotProduct) ? StoreHint::DotProduct : StoreHint::None;
    out.push_back(
        make_store(real_[st].buffers[0], at, substitute(r.combiner->result[0], bind), hint));
    return guarded(make_block(std::move(out)));
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
  for (size_t i = read.size(); i-- > 0;) s = make_let(read[i].first, read[i].second, s);
  return guarded(s);
}

}  // namespace heddle
