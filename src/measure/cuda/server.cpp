#include "measure/cuda/server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "measure/cuda/candidate.h"
#include "measure/cuda/gpu_turn.h"
#include "measure/process/server.h"
#include "measure/task/timing.h"
#include "runtime/cuda/state.h"

namespace heddle::measuring {
namespace {

// Seconds of a graph. It is long enough that the host keeps ahead of the GPU and the launch has no
// weight.
constexpr double kGraphSeconds = 300e-6;
// The number of samples between two tests whether they are enough.
constexpr int kSamplesAtOnce = 5;
// A single call, launch included, that is above the cut-off by this factor needs no further
// samples.
constexpr double kHopeless = 2;
constexpr double kLaunchSeconds = 20e-6;
// A first call loads code and allocates. If it takes this many times the best time and this many
// seconds, it is given up together with its process.
constexpr double kEndless = 500;
constexpr double kEndlessSeconds = 0.5;
// A candidate that is slower than the best by this factor is settled by its first samples.
constexpr double kClearlySlower = 1.15;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// The driver writes files that may be larger than the limit for a worker's output.
void allow_large_files() {
  rlimit r{};
  if (::getrlimit(RLIMIT_FSIZE, &r) != 0) return;
  r.rlim_cur = r.rlim_max;
  ::setrlimit(RLIMIT_FSIZE, &r);
}

class CudaServer : public WorkerServer {
 public:
  using WorkerServer::WorkerServer;

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
    if (what == "compile") return reply(guarded([&] { return compile(request); }));
    if (what == "compile_naive") return reply(guarded([&] { return compile_naive(request); }));
    if (what == "reference") return reply(guarded([&] { return reference(request); }));
    if (answer_on_device(what, request)) return;
    throw_user_error("a worker is asked to '" + what + "'");
  }

  bool answer_on_device(const std::string& what, const Json& request) {
    // The time until its turn is not the candidate's.
    const GpuTurn turn(request.get_string("turns", ""),
                       [&] { status_.set(WorkerPhase::Prepare, -1); });
    if (what == "race") {
      race(request);
    } else if (what == "open") {
      reply(guarded([&] { return open(request); }));
    } else if (what == "run_reference") {
      reply(guarded([&] { return run_reference(request); }));
    } else if (what == "run") {
      reply(guarded([&] { return run(request); }));
    } else {
      return false;
    }
    return true;
  }

  void reply(Json message) override {
    // A lost device cannot be used again. The measurer starts another process.
    const bool lost = gone_ || (device_ && device_->lost());
    if (lost) message["lost"] = Json(true);
    WorkerServer::reply(std::move(message));
    if (lost) ::_exit(0);
  }

  Json failure_of(const std::exception& e) override {
    const auto* error = dynamic_cast<const Error*>(&e);
    const std::string text = error ? error->message : e.what();
    if (status_.phase.load() == WorkerPhase::Compile) return failure(MeasureError::Compile, text);
    const bool memory = dynamic_cast<const cuda::OutOfDeviceMemory*>(&e) != nullptr;
    return failure(memory ? MeasureError::OutOfMemory : MeasureError::Crash, text);
  }

  // ---- compilers -------------------------------------------------------------------------------

  Json compile(const Json& request) {
    const Timer timer;
    settle_down();
    return with_schedule(request, [&](const ReplayedSchedule& replayed) {
      return compiled(replayed, request.at("no_spills").as_bool(), timer);
    });
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

  // Lowers the priority of compilers, so that the runner has a core whenever it needs one.
  void settle_down() {
    if (nice_) return;
    nice_ = true;
    [[maybe_unused]] const int now = ::nice(5);
  }

  Json reference(const Json& request) {
    status_.set(WorkerPhase::Reference, -1);
    fault("cpu reference", -1);
    const MeasuredTask& of = task_of(request);
    return store_reference(of, make_arrays(of),
                           build(vector_schedule(of.task.tmpl.dag()), of.task.args));
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
    task_of(request).reference->store(device.outputs({}));
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
    const MeasuredTask& of = task_of(request);
    if (!protocol_.check_output || !of.reference->ready()) return "";
    if (!request.get_bool("check", true)) return "";
    const Sample sample = all ? Sample(of.task.tmpl.dag().outputs().size())
                              : of.reference->sample(static_cast<uint64_t>(candidate));
    const std::vector<NDArray> outputs = device_->outputs(sample);
    fault("output", candidate, outputs);
    return of.reference->difference(outputs, sample);
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

    // The result is checked before the candidate is timed, because a wrong kernel may be fast. All
    // elements are checked once the candidate turns out to be the best.
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

  // Loads a candidate, runs it once and checks all its results. Returns nothing where that fails.
  std::optional<Racer> enter(const Json& request, const Json& entry) {
    const auto candidate = static_cast<int>(entry.at("candidate").as_int());
    status_.set(WorkerPhase::Run, candidate);
    std::shared_ptr<DeviceKernel> kernel;
    Json checked = guarded([&] {
      TuningDevice& device = device_for(request);
      kernel = device.load(kernel_code_from_json(entry.at("code")), entry.at("steps"));
      fault("run", candidate);
      if (!kernel->first_call(protocol_.timeout_seconds)) return endless(-1);
      status_.set(WorkerPhase::Check, candidate);
      const std::string difference = wrong(request, /*all=*/true, candidate);
      if (!difference.empty()) return failure(MeasureError::WrongAnswer, difference);
      status_.set(WorkerPhase::Run, candidate);
      kernel->call();
      kernel->samples(1, kGraphSeconds);
      return Json::object();
    });
    const bool runs = !checked.contains("error");
    checked["checked"] = Json(candidate);
    reply(std::move(checked));
    if (!runs) return std::nullopt;
    return Racer{candidate, [kernel] { return kernel->samples(1, kGraphSeconds)[0]; }};
  }

  void race(const Json& request) {
    const Timer timer;
    std::vector<Racer> racers;
    for (const Json& entry : request.at("racers").elements()) {
      std::optional<Racer> racer = enter(request, entry);
      if (racer) racers.push_back(std::move(*racer));
    }
    run_rounds(std::move(racers), request, timer);
  }

  std::unique_ptr<TuningDevice> device_;
  int64_t open_task_ = -1;
  bool gone_ = false;  ///< a kernel that never ends occupies the device
  bool nice_ = false;
};

}  // namespace

void serve_cuda(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                const MeasureProtocol& protocol, const WorkerHooks& hooks) {
  cuda::compile_cuda_here();  // this process never forks
  CudaServer(channel, status, tasks, protocol, hooks).serve();
}

}  // namespace heddle::measuring
