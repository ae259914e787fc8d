#include "bench/bench_gpu.h"

#include <optional>
#include <ostream>

#include "common/figures.h"
#include "driver/tolerance.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/driver/build.h"
#include "heddle/runtime/cuda_timing.h"
#include "heddle/support/error.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

/// One schedule of a problem.
struct Result {
  std::string name, provenance;
  double seconds = 0;
  std::string wrong = {};  ///< why there is no time
};

/// A problem with its arrays, and what a CPU computes of them.
class Case {
 public:
  explicit Case(const Problem& problem) : problem_(problem), host_(problem.make_inputs()) {
    for (NDArray& a : problem.make_outputs()) host_.push_back(std::move(a));
    for (const NDArray& a : host_) device_.push_back(a.to_device(Device::cuda()));
    build(create_schedule(problem.outputs), problem.args()).call(host_);
  }

  Result time(const std::string& name, const Schedule& schedule, double seconds) const {
    Result out{.name = name, .provenance = schedule.provenance};
    const Kernel kernel = build(schedule, problem_.args());
    kernel.call(device_);
    out.wrong = difference();
    if (!out.wrong.empty()) return out;
    const cuda::Timing t = cuda::time_kernel(kernel, device_, {.budget_s = seconds});
    if (!t.ok()) throw_runtime_error(problem_.subject + ": " + t.message);
    out.seconds = t.measurement.median_s;
    return out;
  }

 private:
  std::string difference() const {
    const ComputeDag dag(problem_.outputs);
    for (size_t i = problem_.inputs.size(); i < host_.size(); ++i) {
      const Tolerance t = rounding_tolerance(dag, host_[i], problem_.magnitude);
      const NDArray got = device_[i].to_host();
      const Difference d = compare(got, host_[i], t.rtol, t.atol);
      if (!d.ok()) return describe(d, got);
    }
    return "";
  }

  const Problem& problem_;
  std::vector<NDArray> host_, device_;  ///< inputs, then outputs
};

std::vector<Result> results_of(const Problem& problem, const Target& target, double seconds) {
  const Case here(problem);
  AutoSchedulerOptions rules = current_auto_scheduler_options();
  rules.use_records = false;
  std::vector<Result> all = {
      here.time("static", create_schedule(problem.outputs, target, rules), seconds)};
  if (const std::optional<Schedule> recorded = recorded_schedule(problem.outputs, target))
    all.push_back(here.time("tuned", *recorded, seconds));
  return all;
}

}  // namespace

Json bench_on_gpu(const std::vector<Problem>& problems, const Target& target, double seconds,
                  std::ostream& out, bool* right) {
  if (!target.runs_here())
    throw_user_error("kernels for " + to_string(target) + " do not run on this machine");
  Table table({"subject", "type", "", "us", "TFLOP/s", "GB/s", ""});
  table.align_left(6);
  Json all = Json::array();
  for (const Problem& p : problems) {
    for (const Result& r : results_of(p, target, seconds)) {
      const std::string type = to_string(p.dtype);
      *right &= r.wrong.empty();
      if (r.wrong.empty()) {
        table.add_row({p.subject, type, r.name, figure(r.seconds * 1e6),
                       figure(p.flops / r.seconds * 1e-12),
                       figure(static_cast<double>(p.bytes) / r.seconds * 1e-9), r.provenance});
      } else {
        table.add_row({p.subject, type, r.name, "", "", "", "differs from the CPU: " + r.wrong});
      }
      all.push_back(Json::object({{"subject", p.subject},
                                  {"dtype", type},
                                  {"schedule", r.name},
                                  {"seconds", r.seconds},
                                  {"difference", r.wrong}}));
    }
  }
  out << "for " << to_string(target) << "\n" << table.to_string() << std::flush;
  return all;
}

}  // namespace heddle::cli
