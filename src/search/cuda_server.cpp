#include "search/cuda_server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <new>
#include <numeric>

#include "codegen/cuda/nvrtc.h"
#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "search/cuda_candidate.h"
#include "search/measure_timing.h"
#include "search/output_bound.h"

namespace heddle::search {
namespace {

// A graph of so long: the host keeps ahead of the GPU, and its launch weighs nothing.
constexpr double kGraphSeconds = 300e-6;
// Samples asked for at a time; then is looked whether they are enough.
constexpr int kSamplesAtOnce = 5;
// One call, with what its launch costs, so far above the cut-off settles it.
constexpr double kHopeless = 2;
constexpr double kLaunchSeconds = 20e-6;
// A first call loads code and allocates; one that takes so many times the best, and so long, is
// given up with its process.
constexpr double kEndless = 500;
constexpr double kEndlessSeconds = 0.5;
// Above the best by so much, a candidate's place is known as soon as its first samples are there.
constexpr double kClearlySlower = 1.15;
constexpr int kFewestRounds = 6;  // below, the interval of a median is only a range
constexpr double kInfinity = std::numeric_limits<double>::infinity();

Json failure(MeasureError error, const std::string& message) {
  return Json::object({{"error", static_cast<int64_t>(error)}, {"message", message}});
}

/// The driver makes files that may be larger than what a worker may print.
void allow_large_files() {
  rlimit r{};
  if (::getrlimit(RLIMIT_FSIZE, &r) != 0) return;
  r.rlim_cur = r.rlim_max;
  ::setrlimit(RLIMIT_FSIZE, &r);
}

class CudaServer {
 public:
  CudaServer(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
             const MeasureProtocol& protocol, const WorkerHooks& hooks)
      : channel_(channel), status_(status), tasks_(tasks), protocol_(protocol), hooks_(hooks) {}

  void serve() {
    while (const std::optional<Json> request = channel_.receive()) {
      if (request->contains("id")) status_.request.store(request->at("id").as_int());
      forget_noise();
      answer(request->at("do").as_string(), *request);
    }
  }

 private:
  void answer(const std::string& what, const Json& request) {
    if (what == "task") return reply(tasks_.answer(request));
    if (what == "drop") return tasks_.drop(request.at("task").as_int());
    // A worker for a GPU keeps nothing between requests.
    if (what == "rest" || what == "forget") return;
    if (what == "race") return race(request);
    if (what == "compile") return reply(guarded([&] { return compile(request); }));
    if (what == "compile_naive") return reply(guarded([&] { return compile_naive(request); }));
    if (what == "reference") return reply(guarded([&] { return reference(request); }));
    if (what == "open") return reply(guarded([&] { return open(request); }));
    if (what == "run_reference") return reply(guarded([&] { return run_reference(request); }));
    if (what == "run") return reply(guarded([&] { return run(request); }));
    throw_user_error("a worker is asked to '" + what + "'");
  }

  void reply(Json message) {
    // Nothing more can be had of a device that is lost: the measurer starts another process.
    const bool lost = gone_ || (device_ && device_->lost());
    if (lost) message["lost"] = Json(true);
    message["id"] = Json(status_.request.load());  // late answers are told from what was asked last
    status_.set(WorkerPhase::Idle, -1);
    if (!channel_.send(message) || lost) ::_exit(0);
  }

  // What an exception means depends on where it was thrown.
  template <class F>
  Json guarded(F work) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return failure(MeasureError::OutOfMemory, "out of memory");
    } catch (const std::exception& e) {
      const auto* error = dynamic_cast<const Error*>(&e);
      const std::string text = error ? error->message : e.what();
      if (status_.phase.load() == WorkerPhase::Compile) return failure(MeasureError::Compile, text);
      const bool memory = text.find("OUT_OF_MEMORY") != std::string::npos;
      return failure(memory ? MeasureError::OutOfMemory : MeasureError::Crash, text);
    }
  }

  // What a candidate printed is of interest if it dies, not later.
  static void forget_noise() {
    if (::ftruncate(1, 0) == 0) ::lseek(1, 0, SEEK_SET);
  }

  void fault(const char* phase, int candidate, std::span<const NDArray> args = {}) {
    if (hooks_.fault) hooks_.fault(phase, static_cast<size_t>(candidate), args);
  }

  const MeasuredTask& task_of(const Json& request) {
    return tasks_.at(request.at("task").as_int());
  }

  // ---- compilers -------------------------------------------------------------------------------

  Json compile(const Json& request) {
    const Timer timer;
    const auto candidate = static_cast<int>(request.at("candidate").as_int());
    settle_down();
    status_.set(WorkerPhase::Compile, candidate);
    fault("compile", candidate);
    const MeasuredTask& of = task_of(request);
    std::optional<ReplayedSchedule> replayed;
    try {
      replayed = replay_schedule(of, request.at("steps"));
    } catch (const Error& e) {
      return failure(MeasureError::Invalid, e.what());
    }
    return compiled(*replayed, request.at("no_spills").as_bool(), timer);
  }

  Json compile_naive(const Json& request) {
    const Timer timer;
    status_.set(WorkerPhase::Compile, -1);
    const TuneTask& task = task_of(request).task;
    return compiled({naive_schedule(task.tmpl.dag().outputs(), task.tmpl.target()), task.args},
                    false, timer);
  }

  static Json compiled(const ReplayedSchedule& replayed, bool no_spills, const Timer& timer) {
    const Target& target = replayed.schedule.target();
    const GpuProgram program = lower_candidate(replayed.schedule, replayed.args);
    std::string why = why_not_launched(program, target.gpu);
    if (!why.empty()) return failure(MeasureError::Rejected, why);
    const CudaCandidate made = compile_candidate(program, replayed.args, target);
    why = why_not_run(made, target.gpu, no_spills);
    Json out = Json::object();
    if (!why.empty()) out = failure(MeasureError::Rejected, why);
    out["seconds"] = Json(timer.elapsed_s());
    out["nvrtc"] = Json(made.nvrtc_seconds);
    if (why.empty()) out["code"] = to_json(made.code);
    return out;
  }

  // The runner is to have a core whenever it wants one.
  void settle_down() {
    if (nice_) return;
    nice_ = true;
    [[maybe_unused]] const int now = ::nice(5);
  }

  Json reference(const Json& request) {
    status_.set(WorkerPhase::Reference, -1);
    fault("cpu reference", -1);
    const MeasuredTask& of = task_of(request);
    const ComputeDag& dag = of.task.tmpl.dag();
    const Kernel kernel = build(vector_schedule(dag), of.task.args);
    std::vector<NDArray> arrays = of.inputs, outputs;
    for (size_t i = 0; i < arrays.size(); ++i) {
      const Tensor& t = of.task.args[i];
      if (!t.op()->is_placeholder()) arrays[i] = NDArray::empty(t.extents(), t.dtype());
    }
    for (const Tensor& t : dag.outputs()) {
      for (size_t i = 0; i < arrays.size(); ++i) {
        if (of.task.args[i].same_as(t)) outputs.push_back(arrays[i]);
      }
    }
    kernel.call(arrays);
    const OutputBounds bounds = bound_outputs(of.task, arrays, outputs);
    of.reference->store(outputs, bounds.allowed);
    Json out = Json::object();
    if (!bounds.problem.empty()) out["problem"] = Json(bounds.problem);
    return out;
  }

  // ---- the runner ------------------------------------------------------------------------------

  TuningDevice& device_for(const Json& request) {
    if (!device_) {
      allow_large_files();
      device_ = hooks_.device();
    }
    const int64_t task = request.at("task").as_int();
    if (task != open_task_) {
      open_task_ = -1;
      const MeasuredTask& of = task_of(request);
      device_->open(of.task, of.inputs, protocol_.cold.value_or(true));
      open_task_ = task;
    }
    return *device_;
  }

  Json open(const Json& request) {
    status_.set(WorkerPhase::Prepare, -1);
    device_for(request);
    return Json::object();
  }

  Json run_reference(const Json& request) {
    status_.set(WorkerPhase::Reference, -1);
    TuningDevice& device = device_for(request);
    const auto kernel = device.load(kernel_code_from_json(request.at("code")), Json());
    if (!kernel->first_call(protocol_.timeout_seconds)) return endless(-1);
    task_of(request).reference->store(device.outputs());
    return Json::object();
  }

  Json endless(double seconds) {
    gone_ = true;
    if (seconds < 0) {
      return failure(MeasureError::Timeout, "took longer than allowed while running");
    }
    Json out = Json::object({{"cut_off", true}, {"run", seconds}, {"check", 0.0}});
    out["samples"] = Json::array({Json(seconds)});
    return out;
  }

  std::string wrong(const Json& request, bool all, int candidate) {
    const Reference& reference = *task_of(request).reference;
    if (!protocol_.check_output || !reference.ready()) return "";
    const std::vector<NDArray> outputs = device_->outputs();
    fault("output", candidate, outputs);
    return reference.difference(outputs, all, static_cast<uint64_t>(candidate));
  }

  Json run(const Json& request) {
    const auto candidate = static_cast<int>(request.at("candidate").as_int());
    const double best = request.get_double("best", kInfinity);
    const MeasureProtocol& p = protocol_;
    const double limit = p.cutoff > 0 ? p.cutoff * best : kInfinity;
    const double most = p.timeout_seconds;
    const double allowed =
        std::min(most, p.cutoff > 0 ? std::max(kEndless * limit, kEndlessSeconds) : most);
    status_.set(WorkerPhase::Prepare, candidate);
    TuningDevice& device = device_for(request);
    const Timer timer;
    status_.set(WorkerPhase::Run, candidate);
    const auto kernel = device.load(kernel_code_from_json(request.at("code")), request.at("steps"));
    fault("run", candidate);
    if (!kernel->first_call(allowed)) return endless(allowed < most ? allowed : -1);

    // Before it is timed: what is wrong may be fast. All of it once it turns out to be the best.
    status_.set(WorkerPhase::Check, candidate);
    const Timer check_timer;
    std::string difference = wrong(request, /*all=*/best == kInfinity, candidate);
    double checked = check_timer.elapsed_s();
    if (!difference.empty()) return failure(MeasureError::WrongAnswer, difference);

    status_.set(WorkerPhase::Run, candidate);
    Timing timing;
    const double once = kernel->call();
    if (once > kHopeless * limit + kLaunchSeconds) {
      timing = {{once}, true};
    } else {
      timing = sample(*kernel, best, limit);
    }
    MeasureResult result;
    result.seconds = timing.seconds;
    if (best < kInfinity && result.median() < best) {
      status_.set(WorkerPhase::Check, candidate);
      const Timer again;
      if (!kernel->first_call(most)) return endless(-1);
      difference = wrong(request, /*all=*/true, candidate);
      if (!difference.empty()) return failure(MeasureError::WrongAnswer, difference);
      checked += again.elapsed_s();
    }
    Json out = Json::object(
        {{"cut_off", timing.cut_off}, {"run", timer.elapsed_s() - checked}, {"check", checked}});
    out["samples"] = Json::array_of(timing.seconds);
    return out;
  }

  Timing sample(DeviceKernel& kernel, double best, double limit) const {
    const MeasureProtocol& p = protocol_;
    Timing out;
    double total = 0;
    while (static_cast<int>(out.seconds.size()) < std::max(1, p.max_repeats)) {
      const Timer timer;
      const int count = out.seconds.empty() ? std::max(1, p.min_repeats) : kSamplesAtOnce;
      for (const double s : kernel.samples(count, kGraphSeconds)) out.seconds.push_back(s);
      total += timer.elapsed_s();
      const double fastest = *std::min_element(out.seconds.begin(), out.seconds.end());
      if (fastest > limit) {
        out.cut_off = true;
        break;
      }
      if (total >= p.max_seconds) break;
      if (total < p.min_seconds) continue;
      if (fastest > kClearlySlower * best) break;
      if (median_interval(out.seconds).relative_width <= p.relative_ci) break;
    }
    return out;
  }

  struct Racer {
    int candidate = 0;
    std::unique_ptr<DeviceKernel> kernel;
    std::vector<double> seconds = {};
  };

  // Loads each, runs it once and checks all of it.
  bool enter(const Json& request, const Json& entry, Racer& racer) {
    racer.candidate = static_cast<int>(entry.at("candidate").as_int());
    status_.set(WorkerPhase::Run, racer.candidate);
    Json checked = guarded([&] {
      TuningDevice& device = device_for(request);
      racer.kernel = device.load(kernel_code_from_json(entry.at("code")), entry.at("steps"));
      fault("run", racer.candidate);
      if (!racer.kernel->first_call(protocol_.timeout_seconds)) return endless(-1);
      status_.set(WorkerPhase::Check, racer.candidate);
      const std::string difference = wrong(request, /*all=*/true, racer.candidate);
      if (!difference.empty()) return failure(MeasureError::WrongAnswer, difference);
      status_.set(WorkerPhase::Run, racer.candidate);
      racer.kernel->call();
      racer.kernel->samples(1, kGraphSeconds);
      return Json::object();
    });
    const bool runs = !checked.contains("error");
    checked["checked"] = Json(racer.candidate);
    reply(checked);
    return runs;
  }

  bool decided(const std::vector<Racer>& racers) const {
    return std::all_of(racers.begin(), racers.end(), [&](const Racer& r) {
      return static_cast<int>(r.seconds.size()) >= kFewestRounds &&
             median_interval(r.seconds).relative_width <= 0.25 * protocol_.relative_ci;
    });
  }

  void race(const Json& request) {
    const Timer timer;
    const double seconds = request.at("seconds").as_double();
    std::vector<Racer> racers;
    for (const Json& entry : request.at("racers").elements()) {
      Racer racer;
      if (enter(request, entry, racer)) racers.push_back(std::move(racer));
    }
    Rng rng(static_cast<uint64_t>(request.at("seed").as_int()));
    std::vector<size_t> order(racers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    while (!racers.empty()) {
      rng.shuffle(order);
      Json round = Json::array();
      int candidate = -1;
      Json failed = guarded([&] {
        for (const size_t i : order) {
          candidate = racers[i].candidate;
          status_.set(WorkerPhase::Run, candidate);
          const double sample = racers[i].kernel->samples(1, kGraphSeconds)[0];
          racers[i].seconds.push_back(sample);
          round.push_back(Json::array({Json(candidate), Json(sample)}));
        }
        return Json::object();
      });
      if (failed.contains("error")) {
        failed["checked"] = Json(candidate);
        reply(failed);
        std::erase_if(racers, [&](const Racer& r) { return r.candidate == candidate; });
        order.resize(racers.size());
        std::iota(order.begin(), order.end(), size_t{0});
        continue;
      }
      reply(Json::object({{"round", std::move(round)}}));
      if (timer.elapsed_s() >= seconds || decided(racers)) break;
    }
    reply(Json::object({{"done", true}}));
  }

  Channel& channel_;
  WorkerStatus& status_;
  WorkerTasks& tasks_;
  const MeasureProtocol& protocol_;
  const WorkerHooks& hooks_;
  std::unique_ptr<TuningDevice> device_;
  int64_t open_task_ = -1;
  bool gone_ = false;  ///< a kernel that never ends is on the device
  bool nice_ = false;
};

}  // namespace

void serve_cuda(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                const MeasureProtocol& protocol, const WorkerHooks& hooks) {
  cuda::compile_cuda_here();  // nothing is forked from this process
  CudaServer(channel, status, tasks, protocol, hooks).serve();
}

}  // namespace heddle::search
