#include "dag/patterns/look_through.h"

#include "dag/map_loads.h"

namespace heddle::dag {

const Expr& below_casts(const Expr& e) {
  const Expr* at = &e;
  while (const Cast* c = at->as<Cast>()) at = &c->value;
  return *at;
}

Expr at_indices(const Operation& op, const Expr& e, const std::vector<Expr>& indices) {
  std::vector<VarBinding> bind;
  for (std::size_t d = 0; d < indices.size(); ++d) bind.push_back({op.axes()[d].var(), indices[d]});
  return substitute(e, bind);
}

const Reduce* reduction_of(const Operation& op, ReduceKind kind, std::size_t num_axes) {
  if (!op.is_reduction() || op.num_outputs() != 1 ||
      (num_axes != 0 && op.reduce_axes().size() != num_axes))
    return nullptr;
  const Reduce* r = op.bodies()[0].as<Reduce>();
  return r && r->combiner->kind == kind && r->sources.size() == 1 ? r : nullptr;
}

int LookThrough::stage_of(const Load& load) const {
  return dag_.index_of(static_cast<const Operation*>(load.buffer->producer()));
}

bool LookThrough::is_between(int stage) const {
  if (stage < 0) return false;
  const Operation& op = dag_.stage(stage);
  const StageInfo& info = dag_.info(stage);
  return !op.is_placeholder() && !op.is_reduction() && op.num_outputs() == 1 &&
         info.case_periods.empty() && !(info.precomputable && info.flops_per_point > 0);
}

Expr LookThrough::expanded(const Expr& e) {
  looked_ = 0;
  return expand(e);
}

Expr LookThrough::expand(const Expr& e) {
  return map_loads({e}, [&](const Load& load) -> Expr {
    const int s = stage_of(load);
    if (!is_between(s) || looked_ > kMostStagesBetween) return make_load(load.buffer, load.indices);
    ++looked_;
    through.insert(s);
    return expand(at_indices(dag_.stage(s), dag_.stage(s).bodies()[0], load.indices));
  })[0];
}

Expr LookThrough::seen(const Expr& e) {
  const std::set<int> before = through;
  Expr out = expanded(e);
  through = before;
  return out;
}

}  // namespace heddle::dag
