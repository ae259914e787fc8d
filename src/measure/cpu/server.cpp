#include "measure/cpu/server.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>

#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "measure/cpu/candidate.h"
#include "measure/process/limits.h"
#include "measure/process/server.h"
#include "measure/task/network_caches.h"
#include "measure/task/timing.h"
#include "runtime/machine/cpu_topology.h"

namespace heddle::measuring {
namespace {

// Seconds of a candidate's turn in a race. It is long enough that the state which the previous
// candidate left in the caches and in the branch predictor has little weight.
constexpr double kTurnSeconds = 1e-3;
// Seconds of warm-up of a new runner, and after a pause in which results were checked. The first
// calls are slowed down by pages that are not mapped yet and by threads that share a core (row sum
// 197x768: 14 us for the first 6 ms, 4.4 us afterwards).
constexpr double kWarmUpSeconds = 20e-3;

class CpuServer : public WorkerServer {
 public:
  using WorkerServer::WorkerServer;

  using Requests =
      std::variant<TaskMessage, Compile, MakeReference, Run, Enter, Turn, Rest, Forget>;
  void serve() { serve_as<Requests>(*this); }

  void on(const TaskMessage& request) {
    refuse_in_runner(request);
    status_.set(WorkerPhase::Prepare, -1);
    reply(tasks_.answer(request));
  }
  void on(const Compile& request) {
    refuse_in_runner(request);
    reply_guarded([&] { return compile(request); });
  }
  void on(const MakeReference& request) {
    if (in_runner(request.task)) reply_guarded([&] { return make_reference(request); });
  }
  void on(const Run& request) {
    if (in_runner(request.task, request.cpus)) reply_guarded([&] { return run(request); });
  }
  void on(const Enter& request) {
    if (in_runner(request.task)) reply_guarded([&] { return enter(request); });
  }
  void on(const Turn& request) {
    if (!is_runner_) throw_user_error("a turn of a race that nobody has entered");
    reply_guarded([&] { return turn(request.candidate); });
  }
  void on(const Rest&) {
    // Destructors do not run, because a candidate may have overwritten their data.
    if (is_runner_) ::_exit(0);
  }
  void on(const Forget&) { kernels_.clear(); }

 private:
  struct Built {
    int64_t task = -1;
    Kernel kernel;
  };
  /// A candidate of a race.
  struct Racer {
    const Built* compiled = nullptr;
    std::function<void()> before_turn = {};
    int64_t calls = 1;  ///< of a turn
  };

  template <class Request>
  void refuse_in_runner(const Request&) const {
    if (is_runner_)
      throw_user_error(std::string("a runner is asked to ") + to_string(Request::kKind) +
                       ": rest comes first");
  }

  /// Returns true in the runner, which is forked if this is not it. In the worker it returns false
  /// when the runner has ended, and the worker handles the next request. The worker never starts
  /// threads, because a fork would not copy them. A runner that is timed beside others is bound to
  /// `cpus`. If the system refuses, it continues unbound.
  bool in_runner(int64_t task, const std::vector<int>& cpus = {}) {
    if (is_runner_) return true;
    tasks_.hold(task);  // runners share the copies
    const pid_t worker = ::getpid();
    const pid_t runner = ::fork();
    if (runner < 0) throw_runtime_error("fork: " + std::string(std::strerror(errno)));
    if (runner == 0) {
      is_runner_ = true;
      die_with_parent(worker);
      if (!cpus.empty()) internal::run_on_cpus(cpus);
      return true;
    }
    status_.runner.store(runner);
    int status = 0;
    while (::waitpid(runner, &status, 0) < 0 && errno == EINTR) {
    }
    status_.runner.store(0);
    if (status != 0) send(Died{.status = status});
    return false;
  }

  // Faults are injected into other candidates than the static choice that runs beside them.
  void fault_of(const char* phase, int candidate, std::span<const NDArray> args) {
    if (candidate != kBaseCandidate) fault(phase, candidate, args);
  }

  Said compile(const Compile& request) {
    const Timer timer;
    return with_schedule(request, [&](const ReplayedSchedule& replayed) -> Said {
      Compiled out;
      if (request.for_elsewhere) {
        out.code = compile_for_elsewhere(replayed);
      } else {
        kernels_[request.candidate] = {request.task, request.code
                                                         ? load_compiled(*request.code, replayed)
                                                         : build(replayed.schedule, replayed.args)};
      }
      out.seconds = timer.elapsed_s();
      return out;
    });
  }

  // The arguments of the current task. The outputs of other tasks are released.
  const TaskArrays& arrays_of(int64_t task) {
    if (task == arrays_task_) return arrays_;
    arrays_task_ = -1;
    arrays_ = {};
    arrays_ = make_arrays(tasks_.at(task));
    arrays_task_ = task;
    return arrays_;
  }

  /// The function that brings the caches into the required state before a call of this kernel. An
  /// empty one keeps them warm.
  std::function<void()> before_call(const Built& compiled) {
    if (protocol_.cold.value_or(false)) return flusher();
    const int64_t bytes = tasks_.at(compiled.task).task.network_bytes;
    if (bytes <= 0) return {};
    if (!caches_ || caches_task_ != compiled.task) {
      Target machine = Target::host();
      machine.cores = threads_of(compiled.task);
      caches_ =
          std::make_shared<NetworkCaches>(bytes, machine, tasks_.at(compiled.task).from_memory);
      caches_task_ = compiled.task;
    }
    if (!caches_->active()) return {};
    const std::vector<NDArray>& arrays = arrays_of(compiled.task).args;
    std::vector<NDArray> weights = compiled.kernel.prepared(arrays), inputs;
    const std::vector<Tensor>& args = tasks_.at(compiled.task).task.args;
    for (size_t i = 0; i < args.size(); ++i) {
      if (!is_output(args[i]))
        (args[i].op()->is_constant() ? weights : inputs).push_back(arrays[i]);
    }
    return [caches = caches_, weights, inputs] { caches->before_call(weights, inputs); };
  }

  std::function<void()> flusher() {
    const int64_t l3 = Target::host().l3_bytes;
    const int64_t bytes = std::clamp<int64_t>(2 * l3, 16 << 20, 512 << 20);
    if (!flush_.defined()) flush_ = NDArray::zeros({bytes}, u8);
    // Every thread evicts a share, because the threads' own caches must be cold too.
    return [this] {
      parallel_for(flush_.size(), [&](int64_t begin, int64_t end) {
        std::memset(flush_.data<uint8_t>() + begin, ++flushes_ & 0xff,
                    static_cast<size_t>(end - begin));
      });
    };
  }

  static void warm_up(FunctionRef<void()> call) {
    const Timer timer;
    do call();
    while (timer.elapsed_s() < kWarmUpSeconds);
  }

  Said run(const Run& request) {
    const int candidate = request.candidate;
    const double best = request.best.value_or(std::numeric_limits<double>::infinity());
    status_.set(WorkerPhase::Prepare, candidate);
    const Timer timer;
    const auto found = kernels_.extract(candidate);
    if (found.empty()) throw_user_error("the candidate of this run was not compiled");
    const Built& compiled = found.mapped();
    const std::vector<NDArray>& arrays = arrays_of(compiled.task).args;
    const ScopedThreads threads(threads_of(compiled.task));
    for (const NDArray& output : arrays_.outputs) poison(output);
    fault_of("run", candidate, arrays);
    compiled.kernel.prepare(arrays);  // weights are packed once, outside of the timed calls
    const double prepared = timer.elapsed_s();
    status_.set(WorkerPhase::FirstCall, candidate);
    bool first = true;
    const auto call = [&] {
      compiled.kernel.call(arrays);
      if (first) status_.set(WorkerPhase::Run, candidate);
      first = false;
    };
    if (!std::exchange(warm_, true)) warm_up(call);
    const Timing timing = time_calls(protocol_, best, call, before_call(compiled));
    const double ran = timer.elapsed_s();
    status_.set(WorkerPhase::Check, candidate);
    fault_of("output", candidate, arrays);
    MeasureResult result;
    result.seconds = timing.seconds;
    const std::string wrong = candidate == kBaseCandidate
                                  ? ""
                                  : difference(compiled.task, result.median() < best, candidate);
    if (!wrong.empty()) return Failed{MeasureError::WrongAnswer, wrong};
    return Timed{.samples = timing.seconds,
                 .cut_off = timing.cut_off,
                 .prepare = prepared,
                 .run = ran - prepared,
                 .check = timer.elapsed_s() - ran};
  }

  int threads_of(int64_t task) const {
    return std::max(1, tasks_.at(task).task.tmpl.target().cores);
  }

  /// The schedule of the reference, of the task's declaration or of an alternative of it.
  static ReplayedSchedule schedule_of(const MeasuredTask& of, ReferenceBy by) {
    const ComputeDag& dag = of.task.tmpl.dag();
    const Target& target = of.task.tmpl.target();
    switch (by) {
      case ReferenceBy::Naive: return {naive_schedule(dag.outputs(), target), of.task.args};
      case ReferenceBy::Vector: return {vector_schedule(dag, target), of.task.args};
      case ReferenceBy::Default: break;
    }
    return replay_schedule(of, of.default_schedule);
  }

  Said make_reference(const MakeReference& request) {
    const int64_t task = request.task;
    status_.set(WorkerPhase::Reference, -1);
    const MeasuredTask& of = tasks_.at(task);
    const TaskArrays& arrays = arrays_of(task);
    const ScopedThreads threads(threads_of(task));
    const ReplayedSchedule replayed = schedule_of(of, request.by);
    return store_reference(of, arrays, build(replayed.schedule, replayed.args));
  }

  std::string difference(int64_t task, bool all, int candidate) {
    return WorkerServer::difference(tasks_.at(task), arrays_of(task).outputs, all, candidate);
  }

  // Runs a candidate once on poisoned outputs, checks all its results, and determines the number of
  // calls of a turn.
  Said enter(const Enter& request) {
    const int candidate = request.candidate;
    status_.set(WorkerPhase::Prepare, candidate);
    const auto found = kernels_.find(candidate);
    if (found == kernels_.end())
      throw_user_error("candidate " + std::to_string(candidate) + " of a race was not compiled");
    const Built& compiled = found->second;
    const ScopedThreads threads(threads_of(compiled.task));
    const std::vector<NDArray>& arrays = arrays_of(compiled.task).args;
    for (const NDArray& output : arrays_.outputs) poison(output);
    fault("run", candidate, arrays);
    compiled.kernel.prepare(arrays);
    status_.set(WorkerPhase::Run, candidate);
    compiled.kernel.call(arrays);
    status_.set(WorkerPhase::Check, candidate);
    fault("output", candidate, arrays);
    const std::string wrong = difference(compiled.task, /*all=*/true, candidate);
    if (!wrong.empty()) return Failed{MeasureError::WrongAnswer, wrong};
    status_.set(WorkerPhase::Run, candidate);
    const Timer timer;
    compiled.kernel.call(arrays);
    const double seconds = timer.elapsed_s();
    Racer& racer = racers_[candidate] = {&compiled, before_call(compiled)};
    if (!racer.before_turn) racer.calls = calls_per_sample(seconds, kTurnSeconds);
    return Timed{.samples = {seconds}};
  }

  Said turn(int candidate) {
    const auto found = racers_.find(candidate);
    if (found == racers_.end())
      throw_user_error("candidate " + std::to_string(candidate) + " has not entered the race");
    const Racer& racer = found->second;
    status_.set(WorkerPhase::Run, candidate);
    const Kernel& kernel = racer.compiled->kernel;
    const ScopedThreads threads(threads_of(racer.compiled->task));
    const std::vector<NDArray>& arrays = arrays_of(racer.compiled->task).args;
    // The caches are warm or cold as required, but never as the previous candidate left them.
    racer.before_turn ? racer.before_turn() : kernel.call(arrays);
    const Timer timer;
    for (int64_t i = 0; i < racer.calls; ++i) kernel.call(arrays);
    return Timed{.samples = {timer.elapsed_s() / static_cast<double>(racer.calls)}};
  }

  bool is_runner_ = false;
  bool warm_ = false;
  std::map<int, Built> kernels_;  ///< by candidate
  int64_t arrays_task_ = -1;
  TaskArrays arrays_;
  NDArray flush_;
  std::shared_ptr<NetworkCaches> caches_;
  int64_t caches_task_ = -1;
  std::map<int, Racer> racers_;  ///< by candidate
  std::atomic<unsigned> flushes_{0};
};

}  // namespace

void serve_worker(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                  const MeasureProtocol& protocol, const WorkerHooks& hooks) {
  CpuServer(channel, status, tasks, protocol, hooks).serve();
}

}  // namespace heddle::measuring
