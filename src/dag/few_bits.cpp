#include "dag/few_bits.h"

#include <algorithm>

namespace heddle::dag {

bool looks_up(const Operation& op, const Buffer& from) {
  const auto is_load = [](const Expr& e) { return e.kind() == ExprKind::Load; };
  const auto at_data = [&](const Expr& e) {
    const Load* load = e.as<Load>();
    return load && (!from || load->buffer == from) &&
           std::ranges::any_of(load->indices, [&](const Expr& i) { return any_below(i, is_load); });
  };
  return std::ranges::any_of(op.bodies(), [&](const Expr& b) { return any_below(b, at_data); });
}

bool widens_bits(const ComputeDag& dag, int s, double times) {
  const StageInfo& info = dag.info(s);
  if (!info.precomputable || dag.stage(s).is_placeholder() || dag.stage(s).is_reduction())
    return false;
  if (looks_up(dag.stage(s))) return false;
  double read = 0;
  for (const Access& a : info.reads)
    read += static_cast<double>(a.tensor.size() * a.tensor.dtype().bytes());
  return static_cast<double>(info.points * dag.stage(s).output_buffer(0)->dtype.bytes()) >=
         times * read;
}

}  // namespace heddle::dag
