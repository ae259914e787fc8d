#include "lower/nest/bodies.h"

#include <utility>

#include "heddle/support/error.h"
#include "ir/combined_store.h"
#include "ir/replace.h"
#include "ir/sizes.h"

namespace heddle::lowering {

Expr Bodies::translate(const Expr& e, int reader) const {
  RewriteMemo memo;
  return translate(e, reader, memo);
}

Expr Bodies::translate(const Expr& e, int reader, RewriteMemo& memo) const {
  return memo(e, [&](const Expr& x) {
    if (const Expr there = axes_.replacement(x, reader); there.defined()) return there;
    const Load* load = x.as<Load>();
    if (load && graph_.stage_of(load->buffer) >= 0) return translate_load(*load, reader, memo);
    return map_children(x, [&](const Expr& c) { return translate(c, reader, memo); });
  });
}

Expr Bodies::translate_load(const Load& load, int reader, RewriteMemo& memo) const {
  const int st = graph_.stage_of(load.buffer);
  const StageState& x = graph_.stage(st);
  if (!storage_.holds(st)) {
    throw_user_error("stage '" + x.name + "' is computed inside '" +
                         (x.at_stage >= 0 ? graph_.stage(x.at_stage).name : "?") + "', but '" +
                         graph_.stage(reader).name + "' reads it outside of there",
                     {}, "compute '" + x.name + "' at a loop that encloses all its readers");
  }
  size_t component = 0;
  while (!(x.buffers[component] == load.buffer)) ++component;
  std::vector<Expr> logical;
  for (const Expr& i : load.indices) logical.push_back(translate(i, reader, memo));
  const Expr there = make_load(storage_.buffers(st)[component], storage_.indices(st, logical));
  const uint64_t beyond = beyond_ends(load, reader);
  return beyond ? within(there, st, logical, beyond) : there;
}

uint64_t Bodies::beyond_ends(const Load& load, int reader) const {
  const uint64_t beyond = axes_.part(reader).beyond;
  uint64_t dims = 0;
  if (!beyond) return dims;
  // All axes of varying length of a tile on a GPU go beyond their ends together.
  for (size_t d = 0; graph_.on_gpu() && d < load.indices.size(); ++d) {
    if (is_symbolic(extent_of(graph_.stage_of(load.buffer), d))) dims |= uint64_t{1} << d;
  }
  const std::vector<int>& own = graph_.stage(reader).spatial;
  for (size_t d = 0; d < load.indices.size(); ++d) {
    for (size_t axis = 0; axis < own.size(); ++axis) {
      if ((beyond >> axis & 1) && uses_var(load.indices[d], s_.axes[own[axis]].var))
        dims |= uint64_t{1} << d;
    }
  }
  return dims;
}

Expr Bodies::extent_of(int st, size_t d) const {
  const StageState& x = graph_.stage(st);
  // An input has no axes.
  return x.spatial.empty() ? x.buffers[0]->shape[d] : s_.axes[x.spatial[d]].extent;
}

Expr Bodies::within(const Expr& load, int st, const std::vector<Expr>& logical,
                    uint64_t beyond) const {
  if (axes_.part(st).beyond) return load;
  const OpenLoops& loops = axes_.loops();
  Expr inside;
  const auto require = [&](const Expr& here) { inside = inside.defined() ? inside && here : here; };
  for (size_t d = 0; d < logical.size(); ++d) {
    if (!(beyond >> d & 1)) continue;
    const Expr extent = extent_of(st, d);
    if (!graph_.on_gpu() && !loops.proves(Expr(0) <= logical[d])) require(Expr(0) <= logical[d]);
    const Expr here = loops.simple(logical[d] < extent);
    if (!is_const(here, 1) && !loops.at_most(logical[d] + Expr(1), extent)) require(here);
  }
  return inside.defined() ? make_select(inside, load, make_const(load.dtype(), 0)) : load;
}

std::vector<Expr> Bodies::own_indices(int st) const {
  std::vector<Expr> logical;
  for (const int a : graph_.stage(st).spatial) logical.push_back(axes_.index(a));
  return storage_.indices(st, logical);
}

Stmt Bodies::guarded(Stmt s) const {
  for (const Expr& g : axes_.guards()) s = make_if(g, s);
  return s;
}

const Reduce& Bodies::reduction(int st) const {
  const StageState& x = graph_.stage(st);
  const Reduce* r = x.bodies[0].as<Reduce>();
  HEDDLE_ICHECK(r != nullptr, "a reduction stage without a Reduce body: " + x.name);
  HEDDLE_ICHECK(x.buffers.size() == r->combiner->size(),
                "stage '" + x.name + "' keeps only some components of its tuple reduction");
  return *r;
}

Stmt Bodies::init(int st) const {
  const Reduce& r = reduction(st);
  const std::vector<Expr> at = own_indices(st);
  const std::vector<Buffer>& own = storage_.buffers(st);
  std::vector<Stmt> out;
  for (size_t c = 0; c < own.size(); ++c)
    out.push_back(make_store(own[c], at, r.combiner->identity[component(st, c)]));
  return guarded(make_block(std::move(out)));
}

Stmt Bodies::rescale(int st) const {
  const std::vector<Expr> at = own_indices(st);
  const Buffer& b = storage_.buffers(st)[0];
  const Expr by = axes_.loops().simple_access(translate(graph_.stage(st).rescale, st));
  return guarded(make_store(b, at, make_load(b, at) * by));
}

// A prefetch of every distinct read of the hinted stage. It may go beyond the end of the buffer,
// which is harmless.
void Bodies::add_prefetches(int st, const StageState::PrefetchHint& hint,
                            std::vector<Stmt>* out) const {
  std::vector<Expr> seen;
  for (const Expr& body : graph_.stage(st).bodies) {
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

Stmt Bodies::store(int st) const {
  const StageState& p = graph_.stage(st);
  const std::vector<Expr> at = own_indices(st);
  std::vector<Stmt> out;
  for (const auto& hint : p.prefetches) add_prefetches(st, hint, &out);
  if (p.is_reduction() && p.buffers.size() > 1)
    return guarded(update_tuple(st, at, std::move(out)));
  if (p.is_reduction()) {
    out.push_back(update(st, at));
    return guarded(make_block(std::move(out)));
  }
  if (p.places >= 0) return guarded(store_row(st));
  // What several values share is computed once, and none is stored before all are computed.
  std::vector<std::pair<Var, Expr>> values;
  for (size_t c = 0; c < p.buffers.size(); ++c) {
    Expr value = axes_.loops().simple_access(translate(p.bodies[c], st));
    if (p.buffers.size() > 1) {
      for (const auto& [var, earlier] : values) value = replace_equal(value, earlier, var);
      values.emplace_back(Var(p.buffers[c]->name + ".new", value.dtype()), value);
      value = values.back().first;
    }
    out.push_back(make_store(storage_.buffers(st)[c], at, value, p.hints));
  }
  Stmt s = make_block(std::move(out));
  for (size_t c = values.size(); c-- > 0;) s = make_let(values[c].first, values[c].second, s);
  return guarded(s);
}

Stmt Bodies::store_row(int st) const {
  const StageState& p = graph_.stage(st);
  const Buffer& places = graph_.stage(p.places).buffers[0];
  std::vector<Expr> named, at = own_indices(st);
  for (size_t d = 0; d < places->shape.size(); ++d) named.push_back(s_.axes[p.spatial[d]].var);
  const Expr row = axes_.loops().simple_access(translate(make_load(places, named), st));
  at.erase(at.begin() + 1, at.begin() + static_cast<long>(named.size()));
  at[0] = row;
  const Expr value = axes_.loops().simple_access(translate(p.bodies[0], st));
  return make_if(Expr(0) <= row && row < Expr(p.rows),
                 make_store(storage_.buffers(st)[0], at, value, p.hints));
}

Stmt Bodies::update(int st, const std::vector<Expr>& at) const {
  const StageState& p = graph_.stage(st);
  const Reduce& r = reduction(st);
  const Buffer& own = storage_.buffers(st)[0];
  const std::vector<VarBinding> bind{
      {r.combiner->lhs[0], make_load(own, at)},
      {r.combiner->rhs[0], axes_.loops().simple_access(translate(r.sources[0], st))}};
  const StoreHint dots =
                      has(p.hints, StoreHint::DotProduct) ? StoreHint::DotProduct : StoreHint::None,
                  combined = has(p.hints, kCombined) ? kCombined : StoreHint::None;
  return make_store(own, at, substitute(r.combiner->result[0], bind), dots | combined);
}

// All components are computed before any is stored: each may need the old value of the others.
Stmt Bodies::update_tuple(int st, const std::vector<Expr>& at, std::vector<Stmt> before) const {
  const StageState& p = graph_.stage(st);
  const Reduce& r = reduction(st);
  const std::vector<Buffer>& own = storage_.buffers(st);
  std::vector<VarBinding> bind;
  for (size_t c = 0; c < own.size(); ++c)
    bind.push_back({r.combiner->lhs[component(st, c)], make_load(own[c], at)});
  // Values that several components use are read once, before any component is decided. On a GPU the
  // compiler does this, and reductions over threads are recognised by their form.
  std::vector<std::pair<Var, Expr>> read;
  for (size_t k = 0; k < r.combiner->size(); ++k) {
    Expr value = axes_.loops().simple_access(translate(r.sources[k], st));
    if (!graph_.on_gpu() && value.kind() == ExprKind::Load) {
      read.emplace_back(Var(r.combiner->rhs[k]->name, value.dtype()), value);
      value = read.back().first;
    }
    bind.push_back({r.combiner->rhs[k], value});
  }
  std::vector<Var> fresh;
  for (size_t c = 0; c < own.size(); ++c) {
    fresh.emplace_back(p.buffers[c]->name + ".new", p.buffers[c]->dtype);
    before.push_back(make_store(own[c], at, fresh[c]));
  }
  Stmt s = make_block(std::move(before));
  for (size_t c = own.size(); c-- > 0;)
    s = make_let(fresh[c], substitute(r.combiner->result[component(st, c)], bind), s);
  for (size_t i = read.size(); i-- > 0;) s = make_let(read[i].first, read[i].second, s);
  return s;
}

}  // namespace heddle::lowering
