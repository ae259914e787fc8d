#include "search/least_seconds.h"

#include <algorithm>
#include <limits>

#include "driver/program_args.h"
#include "heddle/runtime/thread_pool.h"

namespace heddle::search {
namespace {

/// Whether all floating-point values of a graph have one type. Units for shorter types are faster.
bool has_one_float_type(const ComputeDag& dag) {
  DataType type = dag.outputs()[0].dtype();
  for (int s = 0; s < dag.size(); ++s) {
    for (int o = 0; o < dag.stage(s).num_outputs(); ++o) {
      const DataType own = dag.stage(s).output(o).dtype();
      if (own.is_float() && !(own == type)) return false;
    }
  }
  return type.is_float();
}

}  // namespace

double least_seconds(const TuneTask& task) {
  const Target& target = task.tmpl.target();
  if (target.is_cuda() || !target.runs_here()) return 0;
  const ScopedThreads threads(std::max(1, target.cores));
  double least = std::numeric_limits<double>::infinity();
  for (int b = 0; b < task.tmpl.num_branches(); ++b) {
    const Template branch = task.tmpl.branch(b);
    const ComputeDag& dag = branch.dag();
    if (!has_one_float_type(dag)) return 0;
    const KernelWork work = driver::work_of(dag, target);
    const double rate = work.roof().flops_per_second;
    if (rate <= 0) return 0;
    least = std::min(least, work.flops / rate);
  }
  return least;
}

}  // namespace heddle::search
