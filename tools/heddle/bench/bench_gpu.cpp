#include "bench/bench_gpu.h"

#include <functional>
#include <limits>
#include <optional>
#include <ostream>
#include <span>

#include "common/figures.h"
#include "driver/tolerance.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/driver/build.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/cuda_timing.h"
#include "heddle/support/error.h"
#include "measure/task/steps_hash.h"
#include "subjects/gpu_peers.h"
#include "support/table.h"

namespace heddle::cli {
namespace {

/// One schedule of a problem, or a peer.
struct Result {
  std::string name, provenance;
  double seconds = 0;
  std::string wrong = {};  ///< why there is no time
  bool peer = false;
};

/// What a way of a peer is given to prove itself against the others.
constexpr cuda::TimingOptions kLook = {.samples = 5, .budget_s = 0.02};

/// A problem with its arrays, and what a CPU computes of them.
class Case {
  using Way = std::function<bool(const peers::CublasCall&)>;

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
    out.seconds = seconds_of(cuda::time_kernel(kernel, device_, {.budget_s = seconds}));
    return out;
  }

  /// The fastest way of a peer of those that compute the product.
  Result time_peer(const std::string& name, double seconds) const {
    const peers::CublasProduct peer = gpu_peer(problem_, name);
    const std::string why = peer.error.empty() ? "it refuses the product" : peer.error;
    Result out{.name = name, .provenance = peer.version, .wrong = "not used: " + why, .peer = true};
    const NDArray workspace = NDArray::empty({peers::kCublasWorkspace}, i8, Device::cuda());
    const Way* best = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (const Way& way : peer.ways) {
      for (size_t i = problem_.inputs.size(); i < host_.size(); ++i) device_[i].fill(0);
      if (!run(way, device_, workspace)) continue;
      if (std::string wrong = difference(); !wrong.empty()) {
        out.wrong = std::move(wrong);
        continue;
      }
      const double look = peer.ways.size() == 1 ? 0 : seconds_of(time_way(way, workspace, kLook));
      if (look < least) best = &way, least = look;
    }
    if (best == nullptr) return out;
    out.wrong.clear();
    out.seconds = seconds_of(time_way(*best, workspace, {.budget_s = seconds}));
    if (peer.ways.size() > 1)
      out.provenance += ", the fastest of " + std::to_string(peer.ways.size()) + " algorithms";
    return out;
  }

 private:
  static bool run(const Way& way, std::span<const NDArray> arrays, const NDArray& workspace) {
    return way({.a = arrays[0].data(),
                .b = arrays[1].data(),
                .c = arrays[2].data(),
                .workspace = workspace.data(),
                .stream = cuda::Stream::current().handle()});
  }

  cuda::Timing time_way(const Way& way, const NDArray& workspace,
                        const cuda::TimingOptions& options) const {
    const auto call = [&](std::span<const NDArray> arrays) { run(way, arrays, workspace); };
    return cuda::time_calls(problem_.subject, call, std::span(&device_, 1), options);
  }

  double seconds_of(const cuda::Timing& t) const {
    if (!t.ok()) throw_runtime_error(problem_.subject + ": " + t.message);
    return t.measurement.median_s;
  }

  std::string difference() const {
    const ComputeDag dag(problem_.outputs);
    for (size_t i = problem_.inputs.size(); i < host_.size(); ++i) {
      const driver::Tolerance t = driver::rounding_tolerance(dag, host_[i], problem_.magnitude);
      const NDArray got = device_[i].to_host();
      const Difference d = compare(got, host_[i], t.rtol, t.atol);
      if (!d.ok()) return "differs from the CPU: " + describe(d, got);
    }
    return "";
  }

  const Problem& problem_;
  std::vector<NDArray> host_, device_;  ///< inputs, then outputs
};

std::vector<Result> results_of(const Problem& problem, const GpuBenchOptions& options) {
  const Case here(problem);
  const double seconds = options.seconds;
  AutoSchedulerOptions rules = current_auto_scheduler_options();
  rules.use_records = false;
  const Schedule chosen = create_schedule(problem.outputs, options.target, rules);
  std::vector<Result> all = {here.time("static", chosen, seconds)};
  // Without trees and with the default constants, where that is another schedule.
  rules.use_heuristics = false;
  const Schedule of_rules = create_schedule(problem.outputs, options.target, rules);
  if (measuring::steps_hash(of_rules) != measuring::steps_hash(chosen))
    all.push_back(here.time("rules", of_rules, seconds));
  if (const std::optional<Schedule> recorded = recorded_schedule(problem.outputs, options.target))
    all.push_back(here.time("tuned", *recorded, seconds));
  for (const std::string& name : options.peers) {
    if (problem.product) all.push_back(here.time_peer(name, seconds));
  }
  return all;
}

void add_row(Table& table, const Problem& p, const Result& r) {
  const std::string type = to_string(p.dtype);
  if (!r.wrong.empty()) {
    table.add_row({p.subject, type, r.name, "", "", "", r.wrong});
  } else {
    table.add_row({p.subject, type, r.name, figure(r.seconds * 1e6),
                   figure(p.flops / r.seconds * 1e-12),
                   figure(static_cast<double>(p.bytes) / r.seconds * 1e-9), r.provenance});
  }
}

}  // namespace

Json bench_on_gpu(const std::vector<Problem>& problems, const GpuBenchOptions& options,
                  std::ostream& out, bool* right) {
  if (!options.target.runs_here())
    throw_user_error("kernels for " + to_string(options.target) + " do not run on this machine");
  Table table({"subject", "type", "", "us", "TFLOP/s", "GB/s", ""});
  table.align_left(6);
  Json all = Json::array();
  for (const Problem& p : problems) {
    for (const Result& r : results_of(p, options)) {
      *right &= r.peer || r.wrong.empty();
      add_row(table, p, r);
      all.push_back(Json::object({{"subject", p.subject},
                                  {"dtype", to_string(p.dtype)},
                                  {r.peer ? "peer" : "schedule", r.name},
                                  {"seconds", r.seconds},
                                  {"difference", r.wrong}}));
    }
  }
  out << "for " << to_string(options.target) << "\n" << table.to_string() << std::flush;
  return all;
}

}  // namespace heddle::cli
