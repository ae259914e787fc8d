#include "search/least_seconds.h"

#include <algorithm>
#include <limits>

#include "driver/program_args.h"
#include "heddle/runtime/thread_pool.h"

namespace heddle::search {

double least_seconds(const TuneTask& task) {
  const Target& target = task.tmpl.target();
  if (target.is_cuda() || !target.runs_here()) return 0;
  const ScopedThreads threads(std::max(1, target.cores));
  double least = std::numeric_limits<double>::infinity();
  for (int b = 0; b < task.tmpl.num_branches(); ++b) {
    const Template branch = task.tmpl.branch(b);
    const ComputeDag& dag = branch.dag();
    // Units for shorter types are faster.
    if (driver::float_types(dag) != std::vector{dag.outputs()[0].dtype()}) return 0;
    const KernelWork work = driver::work_of(dag, target);
    const double rate = work.roof().flops_per_second;
    if (rate <= 0) return 0;
    least = std::min(least, work.flops / rate);
  }
  return least;
}

}  // namespace heddle::search
