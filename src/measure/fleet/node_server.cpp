#include "measure/fleet/node_server.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "heddle/records/record.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "measure/cpu/measurer.h"
#include "measure/cuda/measurer.h"
#include "measure/messages/fleet.h"
#include "measure/process/pool.h"
#include "measure/process/program.h"
#include "measure/process/server.h"
#include "measure/process/task.h"

namespace heddle::measuring {
namespace {

// A round on a GPU that begins soon after the static choice was timed is compared with that time,
// so that timing it takes at most this share of a device.
constexpr double kShareOfBase = 0.1, kFreshSeconds = 2;

/// Why kernels for `target` cannot be measured on this machine; "" where they can.
std::string why_not_here(const std::string& text) {
  if (text.empty()) return "";
  const Target target = Target::parse(text);
  if (!(target == Target::host() || target.runs_here())) {
    return "it does not run code for '" + text + "'" +
           (target.is_cuda() ? "" : ", it is '" + to_string(Target::host()) + "'");
  }
  const int threads = default_num_threads();
  if (target.is_cuda() || target.cores <= threads) return "";
  return "it runs " + std::to_string(threads) + " threads, and kernels are for " +
         std::to_string(target.cores);
}

class NodeServer {
 public:
  NodeServer(Channel& channel, const Hello& hello)
      : channel_(channel), hello_(hello), only_compiles_(hello.node->empty()) {
    hello_.node.reset();
  }

  void serve() {
    serve_requests<std::variant<TaskMessage, Compile, MeasureTrials>>(
        channel_, *this, [this](const Envelope& envelope) { id_ = envelope.id; });
  }
  void on(const TaskMessage& request) {
    const Started taken = take_task(request);
    reply(taken);
    if (only_compiles_ && !compiler_ && !taken.message) warm_up(request);
  }
  void on(const Compile& request) {
    std::visit([&](const auto& answer) { reply(answer); }, compile(request));
  }
  void on(const MeasureTrials& request) { measure_or_race(request); }

  template <class Answer>
  void reply(const Answer& answer) {
    if (!channel_.send(encode(answer, {.id = id_})))
      throw_runtime_error("the other end of the channel is closed");
  }

 private:
  /// A task as it was received and as the workers know it.
  struct Known {
    std::shared_ptr<MeasuredTask> told;
    size_t number = 0;  ///< its number for the compiler
  };
  /// The last time of a static choice.
  struct Base {
    double seconds = 0;  ///< 0: it failed, or was not timed yet
    double fresh = 0;    ///< so many seconds later it is timed again
    Timer since = {};
    bool checked = false;  ///< its answers are right
  };
  /// The candidates of a request.
  struct Asked {
    std::vector<int64_t> trials;
    std::vector<Schedule> schedules;
    std::vector<const Json*> codes;  ///< in the request; null for a candidate without code
    bool compiled() const { return std::find(codes.begin(), codes.end(), nullptr) == codes.end(); }
  };

  Started take_task(const TaskMessage& message) {
    try {
      Known known{.told = told_task(message), .number = for_compiler_.size()};
      known.told->task.message = std::make_shared<const Json>(encode(message));
      TaskMessage described = message;
      described.only_compiles = true;
      described.task = static_cast<int64_t>(known.number);
      for_compiler_.push_back(encode(described));
      tasks_[message.task] = std::move(known);
    } catch (const Error& e) {
      return {.message = e.message};
    }
    return {};
  }

  const Known& known(int64_t id) const {
    const auto at = tasks_.find(id);
    if (at == tasks_.end()) throw_user_error("this node was never sent task " + std::to_string(id));
    return at->second;
  }

  // ---- compiling -------------------------------------------------------------------------------

  std::variant<Compiled, Failed, Unable> compile(const Compile& request) {
    const Known& of = known(request.task);
    if (!compiler_) {
      compiler_.emplace(
          1, WorkerProcess::Start{.command = worker_command({}), .hello = encode(hello_)},
          [this](size_t task) { return for_compiler_[task]; });
    }
    try {
      compiler_->start(1, for_compiler_.size());
      compiler_->ask(0,
                     Compile{.task = static_cast<int64_t>(of.number),
                             .steps = request.steps,
                             .no_spills = request.no_spills,
                             .for_elsewhere = true},
                     hello_.measure.timeout_seconds);
      const std::optional<WorkerEvent> event =
          compiler_->next_event(TuneClock(2 * hello_.measure.timeout_seconds + 10));
      if (!event) {
        compiler_->kill(0);
        return Failed{MeasureError::Timeout, "took longer than allowed while compiling"};
      }
      if (const std::optional<Failed> why = event->failure()) return *why;
      return event->answer->as<Compiled>();
    } catch (const Error& e) {  // no worker could be started
      return Unable{e.message};
    }
  }

  /// Compiles the static choice of the first task for nobody. That starts the worker and loads the
  /// compiler, which takes longer than a candidate.
  void warm_up(const TaskMessage& task) {
    compile(Compile{.task = task.task, .steps = task.static_choice});
  }

  // ---- measuring -------------------------------------------------------------------------------

  /// Reads the candidates. Replies at once for those whose steps do not apply.
  Asked read_candidates(const MeasureTrials& request, const MeasuredTask& of) {
    Asked out;
    for (const TrialRequest& candidate : request.trials) {
      try {
        out.schedules.push_back(replay_schedule(of, candidate.steps).schedule);
      } catch (const Error& e) {
        reply(TrialResult{candidate.trial, failed(MeasureError::Invalid, e.message)});
        continue;
      }
      out.trials.push_back(candidate.trial);
      out.codes.push_back(pointer_to(candidate.code));
    }
    return out;
  }

  static const Json* pointer_to(const std::optional<Json>& json) { return json ? &*json : nullptr; }

  /// If all candidates have code, one worker is enough, and its runner stays warm.
  LocalMeasurer& measurer(bool compiled) {
    std::unique_ptr<LocalMeasurer>& at = measurers_[compiled];
    if (at) return *at;
    const WorkerOptions options{.protocol = hello_.measure, .workers = compiled ? 1 : 0};
    if (hello_.kind == WorkerKind::Cuda) {
      at = std::make_unique<CudaMeasurer>(options);
    } else {
      at = std::make_unique<WorkerMeasurer>(options, /*always_base=*/true);
    }
    return *at;
  }

  void measure_or_race(const MeasureTrials& request) {
    const MeasuredTask& of = *known(request.task).told;
    const TuneClock clock(request.seconds);
    const Timer timer;
    const Asked asked = read_candidates(request, of);
    RoundEnd done;
    try {
      LocalMeasurer& measurer = this->measurer(asked.compiled());
      const Json* base = pointer_to(request.base_code);
      const LocalMeasurer::CodeScope codes(measurer, [&asked, base](size_t i) {
        return i == kStaticChoice ? base : i < asked.codes.size() ? asked.codes[i] : nullptr;
      });
      if (request.race) {
        const std::vector<MeasureResult> results =
            measurer.race(of.task, asked.schedules, request.seconds, clock);
        for (size_t i = 0; i < results.size(); ++i) reply(TrialResult{asked.trials[i], results[i]});
      } else {
        measure(measurer, of, asked, request, clock);
      }
      for (const std::string& problem : measurer.problems()) done.problem = problem;
    } catch (const Error& e) {
      done.failed = e.message;
    }
    done.took = timer.elapsed_s();
    done.static_choice = std::exchange(static_choice_seconds_, 0);
    done.old_base = std::exchange(old_base_, false);
    reply(done);
  }

  void measure(LocalMeasurer& measurer, const MeasuredTask& of, const Asked& asked,
               const MeasureTrials& request, const TuneClock& clock) {
    // The measurer for CPUs times the static choice among the candidates.
    const double base =
        hello_.kind == WorkerKind::Cuda ? base_seconds(measurer, of, request, clock) : 0;
    const double best = request.best.value_or(std::numeric_limits<double>::infinity());
    measurer.measure(of.task, asked.schedules, best, clock,
                     [&](size_t index, const MeasureResult& result) {
                       if (result.error == MeasureError::Cancelled) return;
                       MeasureResult out = result;
                       if (base > 0) out.base_seconds = base;
                       reply(TrialResult{asked.trials[index], out});
                     });
  }

  double base_seconds(LocalMeasurer& measurer, const MeasuredTask& of, const MeasureTrials& request,
                      const TuneClock& clock) {
    Base& base = bases_[request.task];
    old_base_ = base.seconds > 0 && base.since.elapsed_s() < base.fresh;
    if (old_base_) return base.seconds;
    const Timer timer;
    std::optional<LocalMeasurer::UncheckedScope> unchecked;
    if (base.checked) unchecked.emplace(measurer);
    base.seconds = time_base(measurer, of, request, clock);
    base.checked = base.checked || base.seconds > 0;
    base.since = Timer();
    static_choice_seconds_ = timer.elapsed_s();
    base.fresh = std::min(kFreshSeconds, static_choice_seconds_ / kShareOfBase);
    return base.seconds;
  }

  /// Seconds of the static choice; 0 where it fails.
  double time_base(LocalMeasurer& measurer, const MeasuredTask& of, const MeasureTrials& request,
                   const TuneClock& clock) {
    const std::vector<Schedule> only{replay_schedule(of, of.default_schedule).schedule};
    const Json* code = pointer_to(request.base_code);
    double base = 0;
    const LocalMeasurer::CodeScope scope(measurer, [code](size_t) { return code; });
    measurer.measure(of.task, only, std::numeric_limits<double>::infinity(), clock,
                     [&](size_t, const MeasureResult& r) { base = r.ok() ? r.median() : 0; });
    return base;
  }

  Channel& channel_;
  Hello hello_;  ///< the settings of its workers
  bool only_compiles_;
  int64_t id_ = 0;
  std::map<int64_t, Known> tasks_;
  std::map<int64_t, Base> bases_;  ///< by task
  double static_choice_seconds_ = 0;
  bool old_base_ = false;  ///< the last request was compared with an earlier time
  std::vector<Json> for_compiler_;
  std::optional<WorkerPool> compiler_;
  std::map<bool, std::unique_ptr<LocalMeasurer>> measurers_;
};

}  // namespace

void serve_node(Channel& channel, const Hello& hello) {
  Started answer{.machine = internal::machine_fingerprint(),
                 .build = internal::build_fingerprint()};
  const std::string problem = why_not_here(*hello.node);
  if (!problem.empty()) answer.problem = problem;
  if (channel.send(encode(answer))) NodeServer(channel, hello).serve();
}

}  // namespace heddle::measuring
