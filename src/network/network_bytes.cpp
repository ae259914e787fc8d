#include "network/network_bytes.h"

#include <algorithm>

namespace heddle::network {

int64_t weight_bytes(const Schedule& schedule) {
  const ComputeDag& dag = schedule.dag();
  const auto constant = [&](int s) {
    const Operation& op = dag.stage(s);
    return op.is_placeholder() ? op.is_constant() : dag.info(s).precomputable;
  };
  int64_t bytes = 0;
  for (int s = 0; s < dag.size(); ++s) {
    const std::vector<int>& readers = dag.info(s).consumers;
    if (!constant(s) || std::all_of(readers.begin(), readers.end(), constant)) continue;
    for (int o = 0; o < dag.stage(s).num_outputs(); ++o) {
      const Tensor t = dag.stage(s).output(o);
      bytes += t.size() * t.dtype().bytes();
    }
  }
  return bytes;
}

void set_network_bytes(std::vector<TuneTask>& tasks) {
  double total = 0;
  for (const TuneTask& t : tasks)
    total += t.weight * static_cast<double>(weight_bytes(t.tmpl.static_schedule()));
  for (TuneTask& t : tasks) t.network_bytes = std::max<int64_t>(1, static_cast<int64_t>(total));
}

}  // namespace heddle::network
