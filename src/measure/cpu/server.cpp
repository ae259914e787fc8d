#include "measure/cpu/server.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <memory>
#include <optional>

#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/runtime/workspace.h"
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

  void serve() {
    while (const std::optional<Json> request = channel_.receive()) {
      const std::string& what = request->at("do").as_string();
      if (request->contains("id")) status_.request.store(request->at("id").as_int());
      if (is_runner_ && (what == "compile" || what == "task"))
        throw_user_error("a runner is asked to " + what + ": rest comes first");
      if (what == "compile") {
        forget_noise();
        reply(guarded([&] { return compile(*request); }));
      } else if (what == "task") {
        status_.set(WorkerPhase::Prepare, -1);
        reply(tasks_.answer(*request));
      } else if (what == "drop") {
        tasks_.drop(request->at("task").as_int());
      } else if (what == "forget") {
        kernels_.clear();
      } else if (what == "rest") {
        // Destructors do not run, because a candidate may have overwritten their data.
        if (is_runner_) ::_exit(0);
      } else if (what != "run" && what != "reference" && what != "race") {
        throw_user_error("a worker is asked to '" + what + "'");
      } else if (is_runner_ || fork_runner(*request)) {
        forget_noise();
        if (what == "run") reply(guarded([&] { return run(*request); }));
        if (what == "reference") reply(guarded([&] { return make_reference(*request); }));
        if (what == "race") race(*request);
      }
    }
  }

 private:
  struct Compiled {
    int64_t task = -1;
    Kernel kernel;
  };

  /// The task that a run, a race or a reference belongs to; -1 where it is not known.
  int64_t measured_with(const Json& request) const {
    if (const Json* task = request.find("task")) return task->as_int();
    const Json* slot = request.find("slot");
    const Json* slots = request.find("slots");
    if (slots && slots->size() > 0) slot = &slots->at(0);
    const auto compiled = slot ? kernels_.find(slot->as_int()) : kernels_.end();
    return compiled == kernels_.end() ? -1 : compiled->second.task;
  }

  /// Binds a runner that is timed beside others to its own CPUs. If the system refuses, the runner
  /// continues unbound.
  static void keep_to_cpus(const Json& request) {
    const Json* named = request.find("cpus");
    if (named == nullptr) return;
    std::vector<int> cpus;
    for (const Json& cpu : named->elements()) cpus.push_back(static_cast<int>(cpu.as_int()));
    internal::run_on_cpus(cpus);
  }

  // Returns true in the runner. In the worker it returns false when the runner has ended, and the
  // worker handles the next request. The worker never starts threads, because a fork would not copy
  // them.
  bool fork_runner(const Json& request) {
    tasks_.hold(measured_with(request));  // runners share the copies
    const pid_t worker = ::getpid();
    const pid_t runner = ::fork();
    if (runner < 0) throw_runtime_error("fork: " + std::string(std::strerror(errno)));
    if (runner == 0) {
      is_runner_ = true;
      die_with_parent(worker);
      keep_to_cpus(request);
      return true;
    }
    status_.runner.store(runner);
    int status = 0;
    while (::waitpid(runner, &status, 0) < 0 && errno == EINTR) {
    }
    status_.runner.store(0);
    if (status != 0) {
      Json message = Json::object();
      message["died"] = Json(status);
      message["phase"] = Json(to_string(status_.phase.load()));
      message["candidate"] = Json(status_.candidate.load());
      send(std::move(message));
    }
    return false;
  }

  Json failure_of(const std::exception& e) override {
    const auto* error = dynamic_cast<const Error*>(&e);
    if (status_.phase.load() == WorkerPhase::Compile) {
      const bool memory =
          error && error->message.find("Cannot allocate memory") != std::string::npos;
      return failure(memory ? MeasureError::OutOfMemory : MeasureError::Compile, e.what());
    }
    if (!error) return failure(MeasureError::Crash, e.what());
    // The arguments are correct, so an exception of a kernel or an array means that memory is
    // exhausted.
    release_workspaces();
    return failure(
        error->kind == ErrorKind::Runtime ? MeasureError::OutOfMemory : MeasureError::Crash,
        e.what());
  }

  // Candidate -1 is the static choice that runs beside others. Faults are injected into other
  // candidates.
  void fault_of(const char* phase, int candidate, std::span<const NDArray> args) {
    if (candidate >= 0) fault(phase, candidate, args);
  }

  Json compile(const Json& request) {
    const Timer timer;
    return with_schedule(request, [&](const ReplayedSchedule& replayed) {
      if (request.get_bool("for_elsewhere", false)) {
        Json code = compile_for_elsewhere(replayed);
        return Json::object({{"seconds", timer.elapsed_s()}, {"code", std::move(code)}});
      }
      const Json* code = request.find("code");
      kernels_[request.at("slot").as_int()] = {
          request.at("task").as_int(),
          code ? load_compiled(*code, replayed) : build(replayed.schedule, replayed.args)};
      return Json::object({{"seconds", timer.elapsed_s()}});
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
  std::function<void()> before_call(const Compiled& compiled) {
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

  Json run(const Json& request) {
    const auto candidate = static_cast<int>(request.at("candidate").as_int());
    const double best = request.get_double("best", std::numeric_limits<double>::infinity());
    status_.set(WorkerPhase::Prepare, candidate);
    const Timer timer;
    const auto found = kernels_.extract(request.at("slot").as_int());
    if (found.empty()) throw_user_error("nothing was compiled into the slot of this run");
    const Compiled& compiled = found.mapped();
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
    // Candidate -1, the static choice beside others, was checked when it was a candidate.
    const std::string wrong =
        candidate < 0 ? "" : difference(compiled.task, result.median() < best, candidate);
    if (!wrong.empty()) return failure(MeasureError::WrongAnswer, wrong);
    Json out = Json::object();
    out["samples"] = Json::array_of(timing.seconds);
    out["cut_off"] = Json(timing.cut_off);
    out["prepare"] = Json(prepared);
    out["run"] = Json(ran - prepared);
    out["check"] = Json(timer.elapsed_s() - ran);
    return out;
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

  Json make_reference(const Json& request) {
    const Timer timer;
    const int64_t task = request.at("task").as_int();
    status_.set(WorkerPhase::Reference, -1);
    const MeasuredTask& of = tasks_.at(task);
    const TaskArrays& arrays = arrays_of(task);
    const ScopedThreads threads(threads_of(task));
    const auto by = static_cast<ReferenceBy>(request.at("by").as_int());
    const ReplayedSchedule replayed = schedule_of(of, by);
    Json out = store_reference(of, arrays, build(replayed.schedule, replayed.args));
    out["seconds"] = Json(timer.elapsed_s());
    return out;
  }

  std::string difference(int64_t task, bool all, int candidate) {
    return WorkerServer::difference(tasks_.at(task), arrays_of(task).outputs, all, candidate);
  }

  // Runs a candidate once on poisoned outputs, checks all its results, and determines the number of
  // calls of a turn. Returns nothing where that fails.
  std::optional<Racer> enter(int candidate, const Compiled& compiled) {
    status_.set(WorkerPhase::Prepare, candidate);
    int64_t calls = 1;
    Json checked = guarded([&] {
      const std::vector<NDArray>& arrays = arrays_of(compiled.task).args;
      for (const NDArray& output : arrays_.outputs) poison(output);
      fault("run", candidate, arrays);
      compiled.kernel.prepare(arrays);
      status_.set(WorkerPhase::Run, candidate);
      compiled.kernel.call(arrays);
      status_.set(WorkerPhase::Check, candidate);
      fault("output", candidate, arrays);
      const std::string wrong = difference(compiled.task, /*all=*/true, candidate);
      if (!wrong.empty()) return failure(MeasureError::WrongAnswer, wrong);
      status_.set(WorkerPhase::Run, candidate);
      const Timer timer;
      compiled.kernel.call(arrays);
      const double seconds = timer.elapsed_s();
      before_turn_[&compiled] = before_call(compiled);
      calls = before_turn_[&compiled] ? 1 : calls_per_sample(seconds, kTurnSeconds);
      return Json::object();
    });
    const bool failed = checked.contains("error");
    const bool wrong_answer =
        failed && checked.at("error").as_int() == static_cast<int64_t>(MeasureError::WrongAnswer);
    checked["checked"] = Json(candidate);
    reply(std::move(checked));
    // The kernel may have written to other memory too, so the others race in another runner.
    if (wrong_answer) ::_exit(0);
    if (failed) return std::nullopt;
    return Racer{candidate, [this, &compiled, calls] { return turn(compiled, calls); }};
  }

  double turn(const Compiled& compiled, int64_t calls) {
    const std::vector<NDArray>& arrays = arrays_of(compiled.task).args;
    // The caches are warm or cold as required, but never as the previous candidate left them.
    const std::function<void()>& before = before_turn_[&compiled];
    before ? before() : compiled.kernel.call(arrays);
    const Timer timer;
    for (int64_t i = 0; i < calls; ++i) compiled.kernel.call(arrays);
    return timer.elapsed_s() / static_cast<double>(calls);
  }

  const Compiled& compiled_in(int64_t slot) const {
    const auto compiled = kernels_.find(slot);
    if (compiled == kernels_.end())
      throw_user_error("nothing was compiled into slot " + std::to_string(slot) + " of a race");
    return compiled->second;
  }

  void race(const Json& request) {
    const Timer timer;
    const Json &slots = request.at("slots"), &candidates = request.at("candidates");
    std::vector<const Compiled*> compiled;
    for (const Json& slot : slots.elements()) compiled.push_back(&compiled_in(slot.as_int()));
    const ScopedThreads threads(compiled.empty() ? 1 : threads_of(compiled[0]->task));
    std::vector<Racer> racers;
    before_turn_.clear();
    for (size_t i = 0; i < compiled.size(); ++i) {
      std::optional<Racer> racer = enter(static_cast<int>(candidates.at(i).as_int()), *compiled[i]);
      if (racer) racers.push_back(std::move(*racer));
    }
    // Candidates warm up in turns, and the status names the running one in case it dies.
    size_t next = 0;
    const auto one_turn = [&] {
      const Racer& r = racers[next++ % racers.size()];
      status_.set(WorkerPhase::Run, r.candidate);
      r.turn();
    };
    if (!racers.empty()) warm_up(one_turn);
    run_rounds(std::move(racers), request, timer);
  }

  bool is_runner_ = false;
  bool warm_ = false;
  std::map<int64_t, Compiled> kernels_;
  int64_t arrays_task_ = -1;
  TaskArrays arrays_;
  NDArray flush_;
  std::shared_ptr<NetworkCaches> caches_;
  int64_t caches_task_ = -1;
  std::map<const Compiled*, std::function<void()>> before_turn_;  ///< for each candidate of a race
  std::atomic<unsigned> flushes_{0};
};

}  // namespace

void serve_worker(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                  const MeasureProtocol& protocol, const WorkerHooks& hooks) {
  CpuServer(channel, status, tasks, protocol, hooks).serve();
}

}  // namespace heddle::measuring
