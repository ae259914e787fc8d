#include "search/worker_main.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <map>
#include <numeric>
#include <optional>

#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/runtime/workspace.h"
#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "search/measure_timing.h"
#include "search/output_bound.h"
#include "search/worker_limits.h"

namespace heddle::search {
namespace {

// A turn of a candidate in a race lasts about so long, so that what the one before it left in the
// caches and in the branch predictor weighs little.
constexpr double kTurnSeconds = 1e-3;
constexpr int kFewestRounds = 6;  // below, the interval of a median is only a range
// A new runner's first calls pay for pages that are not mapped yet and for threads that still share
// a core (row sum 197x768 took 14 us for its first 6 ms, 4.4 us then); so do those after a pause in
// which answers were checked. Nothing is timed before.
constexpr double kWarmUpSeconds = 20e-3;

Json failure(MeasureError error, const std::string& message) {
  Json out = Json::object();
  out["error"] = Json(static_cast<int64_t>(error));
  out["message"] = Json(message);
  return out;
}

class WorkerServer {
 public:
  WorkerServer(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
               const MeasureProtocol& protocol, const WorkerHooks& hooks)
      : channel_(channel), status_(status), tasks_(tasks), protocol_(protocol), hooks_(hooks) {}

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
        // Nothing is torn down: a candidate may have smashed what that would touch.
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

  /// The task that a run, a race or a reference is of; -1: of none that is known.
  int64_t measured_with(const Json& request) const {
    if (const Json* task = request.find("task")) return task->as_int();
    const Json* slot = request.find("slot");
    const Json* slots = request.find("slots");
    if (slots && slots->size() > 0) slot = &slots->at(0);
    const auto compiled = slot ? kernels_.find(slot->as_int()) : kernels_.end();
    return compiled == kernels_.end() ? -1 : compiled->second.task;
  }

  // True in the runner. In the worker it returns when the runner has ended, and the next request is
  // its own. The worker never starts threads, so that nothing is lost in the copy.
  bool fork_runner(const Json& request) {
    tasks_.hold(measured_with(request));  // its children share the copies
    const pid_t worker = ::getpid();
    const pid_t runner = ::fork();
    if (runner < 0) throw_runtime_error("fork: " + std::string(std::strerror(errno)));
    if (runner == 0) {
      is_runner_ = true;
      die_with_parent(worker);
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

  // With the number of the request that the worker, or its runner, received last.
  bool send(Json message) {
    message["id"] = Json(status_.request.load());
    return channel_.send(message);
  }

  void reply(Json message) {
    status_.set(WorkerPhase::Idle, -1);
    if (!send(std::move(message))) ::_exit(0);  // nobody is there to hear it
  }

  // What an exception means depends on where it was thrown.
  template <class F>
  Json guarded(F work) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return failure(MeasureError::OutOfMemory, "out of memory");
    } catch (const Error& e) {
      if (status_.phase.load() == WorkerPhase::Compile) {
        const bool memory = e.message.find("Cannot allocate memory") != std::string::npos;
        return failure(memory ? MeasureError::OutOfMemory : MeasureError::Compile, e.what());
      }
      // Arguments are right, so that a kernel or an array that throws had no memory.
      release_workspaces();
      return failure(e.kind == ErrorKind::Runtime ? MeasureError::OutOfMemory : MeasureError::Crash,
                     e.what());
    } catch (const std::exception& e) {
      return failure(status_.phase.load() == WorkerPhase::Compile ? MeasureError::Compile
                                                                  : MeasureError::Crash,
                     e.what());
    }
  }

  // What a candidate printed is of interest if it dies, not later.
  static void forget_noise() {
    if (::ftruncate(1, 0) == 0) ::lseek(1, 0, SEEK_SET);
  }

  void fault(const char* phase, int candidate, std::span<const NDArray> args = {}) {
    if (hooks_.fault && candidate >= 0) hooks_.fault(phase, static_cast<size_t>(candidate), args);
  }

  Json compile(const Json& request) {
    const Timer timer;
    const auto candidate = static_cast<int>(request.at("candidate").as_int());
    const int64_t task = request.at("task").as_int(), slot = request.at("slot").as_int();
    status_.set(WorkerPhase::Compile, candidate);
    fault("compile", candidate);
    const MeasuredTask& of = tasks_.at(task);
    std::optional<ReplayedSchedule> replayed;
    try {
      replayed = replay_schedule(of, request.at("steps"));
    } catch (const Error& e) {
      return failure(MeasureError::Invalid, e.what());
    }
    kernels_[slot] = {task, build(replayed->schedule, replayed->args)};
    Json out = Json::object();
    out["seconds"] = Json(timer.elapsed_s());
    return out;
  }

  // Outputs of the task at hand; those of another are given back.
  const std::vector<NDArray>& arrays_of(int64_t task) {
    if (task == arrays_task_) return arrays_;
    arrays_.clear();
    outputs_.clear();
    const MeasuredTask& of = tasks_.at(task);
    arrays_ = of.inputs;
    for (size_t i = 0; i < arrays_.size(); ++i) {
      const Tensor& t = of.task.args[i];
      if (is_output(t)) arrays_[i] = NDArray::empty(t.extents(), t.dtype());
    }
    for (const Tensor& t : of.task.tmpl.dag().outputs()) {
      for (size_t i = 0; i < arrays_.size(); ++i) {
        if (of.task.args[i].same_as(t)) outputs_.push_back(arrays_[i]);
      }
    }
    arrays_task_ = task;
    return arrays_;
  }

  std::function<void()> flusher() {
    if (!protocol_.cold.value_or(false)) return {};
    const int64_t l3 = Target::host().l3_bytes;
    const int64_t bytes = std::clamp<int64_t>(2 * l3, 16 << 20, 512 << 20);
    if (!flush_.defined()) flush_ = NDArray::zeros({bytes}, u8);
    // Every thread its share: their own caches are to be cold as well.
    return [this] {
      parallel_for(flush_.size(), [&](int64_t begin, int64_t end) {
        std::memset(flush_.data<uint8_t>() + begin, ++flushes_ & 0xff,
                    static_cast<size_t>(end - begin));
      });
    };
  }

  std::string wrong(int64_t task, bool all, int candidate) {
    const Reference& reference = *tasks_.at(task).reference;
    if (!protocol_.check_output || !reference.ready()) return "";
    return reference.difference(outputs_, all, static_cast<uint64_t>(candidate));
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
    const std::vector<NDArray>& arrays = arrays_of(compiled.task);
    const ScopedThreads threads(threads_of(compiled.task));
    for (const NDArray& output : outputs_) poison(output);
    fault("run", candidate, arrays);
    compiled.kernel.prepare(arrays);  // packed weights: once, and no part of a call
    const double prepared = timer.elapsed_s();
    status_.set(WorkerPhase::FirstCall, candidate);
    bool first = true;
    const auto call = [&] {
      compiled.kernel.call(arrays);
      if (first) status_.set(WorkerPhase::Run, candidate);
      first = false;
    };
    if (!std::exchange(warm_, true)) warm_up(call);
    const Timing timing = time_calls(protocol_, best, call, flusher());
    const double ran = timer.elapsed_s();
    status_.set(WorkerPhase::Check, candidate);
    fault("output", candidate, arrays);
    MeasureResult result;
    result.seconds = timing.seconds;
    // The static choice beside the candidates (-1) was checked when it was one.
    const std::string difference =
        candidate < 0 ? "" : wrong(compiled.task, /*all=*/result.median() < best, candidate);
    if (!difference.empty()) return failure(MeasureError::WrongAnswer, difference);
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

  /// Of the task's own declaration, or of an alternative of it.
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
    const std::vector<NDArray>& arrays = arrays_of(task);
    const ScopedThreads threads(threads_of(task));
    const auto by = static_cast<ReferenceBy>(request.at("by").as_int());
    const ReplayedSchedule replayed = schedule_of(of, by);
    build(replayed.schedule, replayed.args).call(arrays);
    const OutputBounds bounds = bound_outputs(of.task, arrays, outputs_);
    of.reference->store(outputs_, bounds.allowed);
    Json out = Json::object();
    if (!bounds.problem.empty()) out["problem"] = Json(bounds.problem);
    out["seconds"] = Json(timer.elapsed_s());
    return out;
  }

  struct Racer {
    int64_t slot = 0;
    int candidate = 0;
    const Compiled* compiled = nullptr;
    int64_t calls = 1;
    bool running = true;
    std::vector<double> seconds = {};
  };

  // Runs each once, on poisoned outputs, checks all of it, and sees how many calls make a turn.
  void enter(Racer& racer) {
    status_.set(WorkerPhase::Prepare, racer.candidate);
    Json checked = guarded([&] {
      const std::vector<NDArray>& arrays = arrays_of(racer.compiled->task);
      for (const NDArray& output : outputs_) poison(output);
      fault("run", racer.candidate, arrays);
      racer.compiled->kernel.prepare(arrays);
      status_.set(WorkerPhase::Run, racer.candidate);
      racer.compiled->kernel.call(arrays);
      status_.set(WorkerPhase::Check, racer.candidate);
      fault("output", racer.candidate, arrays);
      const std::string difference = wrong(racer.compiled->task, /*all=*/true, racer.candidate);
      if (!difference.empty()) return failure(MeasureError::WrongAnswer, difference);
      status_.set(WorkerPhase::Run, racer.candidate);
      const Timer timer;
      racer.compiled->kernel.call(arrays);
      racer.calls =
          protocol_.cold.value_or(false) ? 1 : calls_per_sample(timer.elapsed_s(), kTurnSeconds);
      return Json::object();
    });
    racer.running = !checked.contains("error");
    checked["checked"] = Json(racer.candidate);
    const bool wrong_answer = !racer.running && checked.at("error").as_int() ==
                                                    static_cast<int64_t>(MeasureError::WrongAnswer);
    reply(std::move(checked));
    // It may have written elsewhere, too: the others race in another runner.
    if (wrong_answer) ::_exit(0);
  }

  double turn(const Racer& racer, const std::function<void()>& flush) {
    status_.set(WorkerPhase::Run, racer.candidate);
    const std::vector<NDArray>& arrays = arrays_of(racer.compiled->task);
    // Warm or cold, but never what the candidate before it made of the caches.
    flush ? flush() : racer.compiled->kernel.call(arrays);
    const Timer timer;
    for (int64_t i = 0; i < racer.calls; ++i) racer.compiled->kernel.call(arrays);
    return timer.elapsed_s() / static_cast<double>(racer.calls);
  }

  bool decided(const std::vector<Racer>& racers) const {
    return std::all_of(racers.begin(), racers.end(), [&](const Racer& r) {
      return !r.running ||
             (static_cast<int>(r.seconds.size()) >= kFewestRounds &&
              median_interval(r.seconds).relative_width <= 0.25 * protocol_.relative_ci);
    });
  }

  void race(const Json& request) {
    const Timer timer;
    const double seconds = request.at("seconds").as_double();
    std::vector<Racer> racers;
    for (size_t i = 0; i < request.at("slots").size(); ++i) {
      Racer r{request.at("slots").at(i).as_int(),
              static_cast<int>(request.at("candidates").at(i).as_int())};
      const auto compiled = kernels_.find(r.slot);
      if (compiled == kernels_.end())
        throw_user_error("nothing was compiled into slot " + std::to_string(r.slot) + " of a race");
      r.compiled = &compiled->second;
      racers.push_back(std::move(r));
    }
    const ScopedThreads threads(racers.empty() ? 1 : threads_of(racers[0].compiled->task));
    for (Racer& r : racers) enter(r);
    std::erase_if(racers, [](const Racer& r) { return !r.running; });
    const std::function<void()> flush = flusher();
    // In turns as well: the status names who runs, should it die.
    size_t next = 0;
    if (!racers.empty()) warm_up([&] { turn(racers[next++ % racers.size()], {}); });
    Rng rng(static_cast<uint64_t>(request.at("seed").as_int()));
    std::vector<size_t> order(racers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    do {
      rng.shuffle(order);
      Json round = Json::array();
      for (size_t i : order) {
        const double sample = turn(racers[i], flush);
        racers[i].seconds.push_back(sample);
        round.push_back(Json::array({Json(racers[i].candidate), Json(sample)}));
      }
      Json message = Json::object();
      message["round"] = std::move(round);
      reply(message);
    } while (timer.elapsed_s() < seconds && !decided(racers));
    Json done = Json::object();
    done["done"] = Json(true);
    reply(done);
  }

  bool is_runner_ = false;
  bool warm_ = false;
  Channel& channel_;
  WorkerStatus& status_;
  WorkerTasks& tasks_;
  const MeasureProtocol& protocol_;
  const WorkerHooks& hooks_;
  std::map<int64_t, Compiled> kernels_;
  int64_t arrays_task_ = -1;
  std::vector<NDArray> arrays_, outputs_;
  NDArray flush_;
  std::atomic<unsigned> flushes_{0};
};

}  // namespace

void serve_worker(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
                  const MeasureProtocol& protocol, const WorkerHooks& hooks) {
  WorkerServer(channel, status, tasks, protocol, hooks).serve();
}

}  // namespace heddle::search
