#include "measure/cuda/server.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <optional>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "driver/launch_limits.h"
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

  using Requests = std::variant<TaskMessage, Compile, CompileNaive, MakeReference, RunReference,
                                Open, Run, Enter, Turn, Rest, Forget>;
  void serve() { serve_as<Requests>(*this); }

  void on(const TaskMessage& request) { reply(tasks_.answer(request)); }
  void on(const Compile& request) {
    reply_guarded([&] { return compile(request); });
  }
  void on(const CompileNaive& request) {
    reply_guarded([&] { return compile_naive(request); });
  }
  void on(const MakeReference& request) {
    reply_guarded([&] { return reference(request); });
  }
  void on(const RunReference& request) {
    const Turns turns(*this, request.turns);
    reply_guarded([&] { return run_reference(request); });
  }
  void on(const Open& request) {
    const Turns turns(*this, request.turns);
    reply_guarded([&]() -> Said {
      status_.set(WorkerPhase::Prepare, -1);
      device_for(request.task);
      return Done{};
    });
  }
  void on(const Run& request) {
    const Turns turns(*this, request.turns);
    reply_guarded([&] { return run(request); });
  }
  void on(const Enter& request) {
    if (!race_turn_) race_turn_.emplace(request.turns, waits());
    reply_guarded([&] { return enter(request); });
  }
  void on(const Turn& request) {
    reply_guarded([&] { return turn(request.candidate); });
  }
  void on(const Rest&) {
    racers_.clear();
    race_turn_.reset();
  }
  void on(const Forget&) {}  // a worker for a GPU keeps nothing between requests

 private:
  /// A turn on the device, outside of races. A race that has ended gives back its own.
  struct Turns {
    Turns(CudaServer& server, const std::string& file) {
      server.on(Rest{});
      turn.emplace(file, server.waits());
    }
    std::optional<GpuTurn> turn;
  };
  /// The time until its turn is not the candidate's.
  std::function<void()> waits() {
    return [this] { status_.set(WorkerPhase::Prepare, -1); };
  }

  bool device_is_lost() override { return gone_ || (device_ && device_->lost()); }

  // ---- compilers -------------------------------------------------------------------------------

  Said compile(const Compile& request) {
    const Timer timer;
    settle_down();
    return with_schedule(request, [&](const ReplayedSchedule& replayed) {
      return compiled(replayed, request.no_spills, timer);
    });
  }

  Said compile_naive(const CompileNaive& request) {
    const Timer timer;
    status_.set(WorkerPhase::Compile, -1);
    const TuneTask& task = tasks_.at(request.task).task;
    return compiled({naive_schedule(task.tmpl.dag().outputs(), task.tmpl.target()), task.args},
                    false, timer);
  }

  static Said compiled(const ReplayedSchedule& replayed, bool no_spills, const Timer& timer) {
    const Target& target = replayed.schedule.target();
    const GpuProgram program = lower_candidate(replayed.schedule, replayed.args);
    if (const auto found = driver::beyond_limit(program, target.gpu))
      return Failed{MeasureError::Rejected, found->what};
    const CudaCandidate made = compile_candidate(program, replayed.args, target);
    const std::string why = why_not_run(made, target.gpu, no_spills);
    if (!why.empty())
      return Failed{MeasureError::Rejected, why, timer.elapsed_s(), made.nvrtc_seconds};
    Compiled out{.nvrtc = made.nvrtc_seconds, .code = to_json(made.code)};
    out.seconds = timer.elapsed_s();
    return out;
  }

  // Lowers the priority of compilers, so that the runner has a core whenever it needs one.
  void settle_down() {
    if (nice_) return;
    nice_ = true;
    [[maybe_unused]] const int now = ::nice(5);
  }

  Said reference(const MakeReference& request) {
    status_.set(WorkerPhase::Reference, -1);
    fault("cpu reference", -1);
    const MeasuredTask& of = tasks_.at(request.task);
    return store_reference(of, make_arrays(of),
                           build(vector_schedule(of.task.tmpl.dag()), of.task.args));
  }

  // ---- the runner ------------------------------------------------------------------------------

  TuningDevice& device_for(int64_t task) {
    if (!device_) {
      allow_large_files();
      device_ = hooks_.device();
    }
    if (task != open_task_) {
      open_task_ = -1;
      const MeasuredTask& of = tasks_.at(task);
      device_->open(of.task, of.inputs, protocol_.cold.value_or(true));
      open_task_ = task;
    }
    return *device_;
  }

  Said run_reference(const RunReference& request) {
    status_.set(WorkerPhase::Reference, -1);
    TuningDevice& device = device_for(request.task);
    const auto kernel = device.load(kernel_code_from_json(request.code), Json());
    if (!kernel->first_call(protocol_.timeout_seconds)) return endless();
    tasks_.at(request.task).reference->store(device.outputs({}));
    return Done{};
  }

  Failed endless() {
    gone_ = true;
    return {MeasureError::Timeout, "took longer than allowed while running"};
  }

  std::shared_ptr<DeviceKernel> load(int64_t task, const std::optional<CodeOf>& of) {
    if (!of) throw_user_error("a worker for a GPU is to run what has no code");
    return device_for(task).load(kernel_code_from_json(of->code), of->steps);
  }

  std::string wrong(int64_t task, bool all, int candidate) {
    const MeasuredTask& of = tasks_.at(task);
    if (!protocol_.check_output || !of.reference->ready()) return "";
    const Sample sample = all ? Sample(of.task.tmpl.dag().outputs().size())
                              : of.reference->sample(static_cast<uint64_t>(candidate));
    const std::vector<NDArray> outputs = device_->outputs(sample);
    fault("output", candidate, outputs);
    return of.reference->difference(outputs, sample);
  }

  Said run(const Run& request) {
    const int candidate = request.candidate;
    const double best = request.best.value_or(kInfinity);
    const MeasureProtocol& p = protocol_;
    const double limit = p.cutoff > 0 ? p.cutoff * best : kInfinity;
    const double most = p.timeout_seconds;
    const double allowed =
        std::min(most, p.cutoff > 0 ? std::max(kEndless * limit, kEndlessSeconds) : most);
    status_.set(WorkerPhase::Prepare, candidate);
    device_for(request.task);
    const Timer timer;
    status_.set(WorkerPhase::Run, candidate);
    const auto kernel = load(request.task, request.code);
    fault("run", candidate);
    if (!kernel->first_call(allowed)) {
      Failed why = endless();
      if (allowed >= most) return why;
      return Timed{.samples = {allowed}, .cut_off = true, .run = allowed};
    }

    // The result is checked before the candidate is timed, because a wrong kernel may be fast. All
    // elements are checked once the candidate turns out to be the best.
    status_.set(WorkerPhase::Check, candidate);
    const Timer check_timer;
    std::string difference;
    if (!request.unchecked) difference = wrong(request.task, /*all=*/best == kInfinity, candidate);
    double checked = check_timer.elapsed_s();
    if (!difference.empty()) return Failed{MeasureError::WrongAnswer, difference};

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
    if (!request.unchecked && best < kInfinity && result.median() < best) {
      status_.set(WorkerPhase::Check, candidate);
      const Timer again;
      if (!kernel->first_call(most)) return endless();
      difference = wrong(request.task, /*all=*/true, candidate);
      if (!difference.empty()) return Failed{MeasureError::WrongAnswer, difference};
      checked += again.elapsed_s();
    }
    return Timed{.samples = timing.seconds,
                 .cut_off = timing.cut_off,
                 .run = timer.elapsed_s() - checked,
                 .check = checked};
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

  // Loads a candidate, runs it once and checks all its results.
  Said enter(const Enter& request) {
    const int candidate = request.candidate;
    status_.set(WorkerPhase::Run, candidate);
    std::shared_ptr<DeviceKernel> kernel = load(request.task, request.code);
    fault("run", candidate);
    if (!kernel->first_call(protocol_.timeout_seconds)) return endless();
    status_.set(WorkerPhase::Check, candidate);
    const std::string difference = wrong(request.task, /*all=*/true, candidate);
    if (!difference.empty()) return Failed{MeasureError::WrongAnswer, difference};
    status_.set(WorkerPhase::Run, candidate);
    const double seconds = kernel->call();
    racers_[candidate] = std::move(kernel);
    return Timed{.samples = {seconds}};
  }

  Said turn(int candidate) {
    const auto racer = racers_.find(candidate);
    if (racer == racers_.end())
      throw_user_error("candidate " + std::to_string(candidate) + " has not entered the race");
    status_.set(WorkerPhase::Run, candidate);
    return Timed{.samples = racer->second->samples(1, kGraphSeconds)};
  }

  std::unique_ptr<TuningDevice> device_;
  int64_t open_task_ = -1;
  std::map<int, std::shared_ptr<DeviceKernel>> racers_;  ///< by candidate
  std::optional<GpuTurn> race_turn_;
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
