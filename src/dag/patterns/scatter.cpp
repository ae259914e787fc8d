#include "heddle/dag/scatter.h"

#include <algorithm>

#include "heddle/ir/simplify.h"
#include "ir/conjuncts.h"

namespace heddle {
namespace {

bool uses_any(const Expr& e, const std::vector<Var>& vars) {
  return std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return uses_var(e, v); });
}

/// What `condition` says that `v` is; null where it is no equation of `v` alone on one side.
Expr place_of(const Expr& condition, const Var& v) {
  const Binary* b = condition.as<Binary>();
  if (!b || b->op != BinaryOp::Eq || b->a.dtype() != i64 || !uses_var(condition, v)) return {};
  for (const Expr& place : {simplify(b->a - b->b + v.expr()), simplify(b->b - b->a + v.expr())}) {
    if (!uses_var(place, v)) return place;
  }
  return {};
}

}  // namespace

bool combines_in_any_order(const Expr& body) {
  const Reduce* r = body.as<Reduce>();
  if (!r || r->combiner->size() != 1) return false;
  const ReduceKind kind = r->combiner->kind;
  const DataType t = r->dtype;
  return (kind == ReduceKind::Sum || kind == ReduceKind::Max || kind == ReduceKind::Min) &&
         !t.is_float() && (t.bits == 32 || t.bits == 64);
}

std::optional<internal::ChosenSource> internal::chosen_source(const Expr& e) {
  if (const Cast* c = e.as<Cast>()) {
    std::optional<ChosenSource> inner = chosen_source(c->value);
    if (!inner) return std::nullopt;
    return ChosenSource{inner->condition, cast(e.dtype(), inner->value),
                        simplify(cast(e.dtype(), inner->otherwise))};
  }
  const Select* s = e.as<Select>();
  if (!s || !is_const(s->on_false)) return std::nullopt;
  return ChosenSource{s->condition, s->on_true, s->on_false};
}

internal::PlacesOf internal::places_of(const Expr& condition, const std::vector<Var>& vars) {
  std::vector<Expr> conjuncts;
  add_conjuncts(condition, conjuncts);
  PlacesOf found;
  for (const Expr& c : conjuncts) {
    Expr place;
    for (const Var& v : vars) {
      const bool taken = std::any_of(found.vars.begin(), found.vars.end(),
                                     [&](const Var& f) { return f.same_as(v); });
      if (place.defined() || taken) continue;
      place = place_of(c, v);
      if (!place.defined()) continue;
      found.vars.push_back(v);
      found.places.push_back(place);
    }
    if (!place.defined()) found.rest = found.rest.defined() ? Expr(found.rest && c) : c;
  }
  const bool apart = std::none_of(found.places.begin(), found.places.end(),
                                  [&](const Expr& p) { return uses_any(p, found.vars); }) &&
                     !(found.rest.defined() && uses_any(found.rest, found.vars));
  return apart ? found : PlacesOf{};
}

std::optional<ScatterInfo> find_scatter(const Operation& op) {
  const Reduce* r = op.is_reduction() ? op.bodies()[0].as<Reduce>() : nullptr;
  if (!r || r->combiner->size() != 1 || op.num_outputs() != 1) return std::nullopt;
  const std::optional<internal::ChosenSource> s = internal::chosen_source(r->sources[0]);
  if (!s || !equal(s->otherwise, r->combiner->identity[0])) return std::nullopt;
  std::vector<Var> vars;
  for (const Axis& a : op.axes()) vars.push_back(a.var());
  const internal::PlacesOf found = internal::places_of(s->condition, vars);
  if (uses_any(s->value, found.vars)) return std::nullopt;
  ScatterInfo info;
  for (size_t d = 0; d < vars.size(); ++d) {
    for (size_t n = 0; n < found.vars.size(); ++n) {
      if (!found.vars[n].same_as(vars[d])) continue;
      // A place that no reduced axis is in is the same for all sources.
      const bool varies = std::any_of(r->axes.begin(), r->axes.end(), [&](const Axis& q) {
        return uses_var(found.places[n], q.var());
      });
      if (!varies) return std::nullopt;
      info.axes.push_back(static_cast<int>(d));
      info.places.push_back(found.places[n]);
    }
  }
  if (info.axes.empty()) return std::nullopt;
  for (size_t d = 0; d < vars.size(); ++d) {
    const int axis = static_cast<int>(d);
    if (std::find(info.axes.begin(), info.axes.end(), axis) != info.axes.end()) continue;
    (uses_var(s->condition, vars[d]) ? info.others : info.columns).push_back(axis);
  }
  return info;
}

}  // namespace heddle
