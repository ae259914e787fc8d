#include "dag/few_bits.h"

#include <algorithm>

namespace heddle::dag {

bool widens_bits(const ComputeDag& dag, int s) {
  constexpr int64_t kWider = 3;
  const StageInfo& info = dag.info(s);
  if (!info.precomputable || dag.stage(s).is_placeholder() || dag.stage(s).is_reduction())
    return false;
  const auto looks_up = [](const Expr& e) {
    const Load* load = e.as<Load>();
    return load && std::any_of(load->indices.begin(), load->indices.end(), [](const Expr& i) {
             return any_below(i, [](const Expr& x) { return x.kind() == ExprKind::Load; });
           });
  };
  if (any_below(dag.stage(s).bodies()[0], looks_up)) return false;
  int64_t read = 0;
  for (const Access& a : info.reads) read += a.tensor.size() * a.tensor.dtype().bytes();
  return info.points * dag.stage(s).output_buffer(0)->dtype.bytes() >= kWider * read;
}

}  // namespace heddle::dag
