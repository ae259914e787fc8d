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
#include "measure/process/answers.h"
#include "measure/process/pool.h"
#include "measure/process/program.h"
#include "measure/process/task.h"

namespace heddle::measuring {
namespace {

// A round on a GPU that begins soon after the static choice was timed is compared with that time,
// so that timing it takes at most this share of a device.
constexpr double kShareOfBase = 0.1, kFreshSeconds = 2;
// Far more candidates than any request has.
constexpr size_t kMostCandidates = 4096;
constexpr double kLongestRequest = 3600;

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
  NodeServer(Channel& channel, const WorkerHello& hello)
      : channel_(channel), hello_(hello), only_compiles_(hello.node->empty()) {
    hello_.node.reset();
  }

  void serve() {
    while (const std::optional<Json> request = channel_.receive()) {
      id_ = request->get_int("id", 0);
      const std::string& what = request->at("do").as_string();
      if (what == "task") {
        Json taken = take_task(*request);
        const bool refused = taken.contains("message");
        reply(std::move(taken));
        if (only_compiles_ && !compiler_ && !refused) warm_up(*request);
      } else if (what == "compile") {
        reply(compile(*request));
      } else if (what == "measure" || what == "race") {
        measure_or_race(*request, what == "race");
      } else {
        throw_user_error("a node is asked to '" + what + "'");
      }
    }
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
    std::vector<const Json*> codes;  ///< null for a candidate without code
    bool compiled() const { return std::find(codes.begin(), codes.end(), nullptr) == codes.end(); }
  };

  void reply(Json message) {
    message["id"] = Json(id_);
    if (!channel_.send(message)) throw_runtime_error("the other end of the channel is closed");
  }

  Json take_task(const Json& message) {
    Json out = Json::object({{"started", message.at("task")}});
    try {
      Known known{.told = told_task(message), .number = for_compiler_.size()};
      known.told->task.message = std::make_shared<const Json>(message);
      Json described = message;
      described["inputs"] = Json(false);
      described["task"] = Json(known.number);
      for_compiler_.push_back(std::move(described));
      tasks_[message.at("task").as_int()] = std::move(known);
    } catch (const Error& e) {
      out["message"] = Json(e.message);
    }
    return out;
  }

  const Known& known(const Json& request) const {
    const int64_t id = request.at("task").as_int();
    const auto at = tasks_.find(id);
    if (at == tasks_.end()) throw_user_error("this node was never sent task " + std::to_string(id));
    return at->second;
  }

  // ---- compiling -------------------------------------------------------------------------------

  Json compile(const Json& request) {
    const Known& of = known(request);
    if (!compiler_) {
      compiler_.emplace(
          1, WorkerProcess::Start{.command = worker_command({}), .hello = to_json(hello_)},
          [this](size_t task) { return for_compiler_[task]; });
    }
    try {
      compiler_->start(1, for_compiler_.size());
      compiler_->ask(0,
                     Json::object({{"do", "compile"},
                                   {"task", of.number},
                                   {"candidate", 0},
                                   {"steps", request.at("steps")},
                                   {"no_spills", request.get_bool("no_spills", false)},
                                   {"for_elsewhere", true}}),
                     hello_.measure.timeout_seconds);
      const std::optional<WorkerEvent> event =
          compiler_->next_event(TuneClock(2 * hello_.measure.timeout_seconds + 10));
      if (!event) {
        compiler_->kill(0);
        return failure_json(MeasureError::Timeout, "took longer than allowed while compiling");
      }
      if (!event->answer) return failure_json(event->death.error, event->death.message);
      if (!event->answer->contains("error")) return *event->answer;
      const MeasureResult why = failed(*event->answer);
      return failure_json(why.error, why.message);
    } catch (const Error& e) {  // no worker could be started
      return Json::object({{"failed", e.message}});
    }
  }

  /// Compiles the static choice of the first task for nobody. That starts the worker and loads the
  /// compiler, which takes longer than a candidate.
  void warm_up(const Json& task) {
    compile(Json::object({{"task", task.at("task")}, {"steps", task.at("default")}}));
  }

  static Json failure_json(MeasureError error, const std::string& message) {
    return Json::object({{"error", to_string(error)}, {"message", message}});
  }

  // ---- measuring -------------------------------------------------------------------------------

  /// Reads the candidates. Replies at once for those whose steps do not apply.
  Asked read_candidates(const Json& request, const MeasuredTask& of) {
    const std::vector<Json>& all = request.at("candidates").elements();
    if (all.size() > kMostCandidates)
      throw_user_error("a request about " + std::to_string(all.size()) + " candidates");
    Asked out;
    for (const Json& candidate : all) {
      const int64_t trial = candidate.at("trial").as_int();
      try {
        out.schedules.push_back(replay_schedule(of, candidate.at("steps")).schedule);
      } catch (const Error& e) {
        answer(trial, failed(MeasureError::Invalid, e.message));
        continue;
      }
      out.trials.push_back(trial);
      out.codes.push_back(candidate.find("code"));
    }
    return out;
  }

  void answer(int64_t trial, const MeasureResult& result) {
    Json out = result_to_json(result);
    out["trial"] = Json(trial);
    reply(std::move(out));
  }

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

  void measure_or_race(const Json& request, bool race) {
    const MeasuredTask& of = *known(request).told;
    const double seconds = request.at("seconds").as_double();
    if (!(seconds >= 0 && seconds <= kLongestRequest))
      throw_user_error("a request that may take " + std::to_string(seconds) + " s");
    const TuneClock clock(seconds);
    const Timer timer;
    Asked asked = read_candidates(request, of);
    Json done = Json::object({{"done", true}});
    try {
      LocalMeasurer& measurer = this->measurer(asked.compiled());
      const Json* base = request.find("base_code");
      const LocalMeasurer::CodeScope codes(measurer, [&asked, base](size_t i) {
        return i == kStaticChoice ? base : i < asked.codes.size() ? asked.codes[i] : nullptr;
      });
      if (race) {
        const std::vector<MeasureResult> results =
            measurer.race(of.task, asked.schedules, seconds, clock);
        for (size_t i = 0; i < results.size(); ++i) answer(asked.trials[i], results[i]);
      } else {
        measure(measurer, of, asked, request, clock);
      }
      for (const std::string& problem : measurer.problems()) done["problem"] = Json(problem);
    } catch (const Error& e) {
      done["failed"] = Json(e.message);
    }
    done["took"] = Json(timer.elapsed_s());
    done["static_choice"] = Json(std::exchange(static_choice_seconds_, 0));
    done["old_base"] = Json(std::exchange(old_base_, false));
    reply(std::move(done));
  }

  void measure(LocalMeasurer& measurer, const MeasuredTask& of, const Asked& asked,
               const Json& request, const TuneClock& clock) {
    // The measurer for CPUs times the static choice among the candidates.
    const double base =
        hello_.kind == WorkerKind::Cuda ? base_seconds(measurer, of, request, clock) : 0;
    const double best = request.get_double("best", std::numeric_limits<double>::infinity());
    measurer.measure(of.task, asked.schedules, best, clock,
                     [&](size_t index, const MeasureResult& result) {
                       if (result.error == MeasureError::Cancelled) return;
                       MeasureResult out = result;
                       if (base > 0) out.base_seconds = base;
                       answer(asked.trials[index], out);
                     });
  }

  double base_seconds(LocalMeasurer& measurer, const MeasuredTask& of, const Json& request,
                      const TuneClock& clock) {
    Base& base = bases_[request.at("task").as_int()];
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
  double time_base(LocalMeasurer& measurer, const MeasuredTask& of, const Json& request,
                   const TuneClock& clock) {
    const std::vector<Schedule> only{replay_schedule(of, of.default_schedule).schedule};
    const Json* code = request.find("base_code");
    double base = 0;
    const LocalMeasurer::CodeScope scope(measurer, [code](size_t) { return code; });
    measurer.measure(of.task, only, std::numeric_limits<double>::infinity(), clock,
                     [&](size_t, const MeasureResult& r) { base = r.ok() ? r.median() : 0; });
    return base;
  }

  Channel& channel_;
  WorkerHello hello_;  ///< the settings of its workers
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

void serve_node(Channel& channel, const WorkerHello& hello) {
  Json answer = hello_answer();
  answer["machine"] = Json(internal::machine_fingerprint());
  answer["build"] = Json(internal::build_fingerprint());
  const std::string problem = why_not_here(*hello.node);
  if (!problem.empty()) answer["problem"] = Json(problem);
  if (channel.send(answer)) NodeServer(channel, hello).serve();
}

}  // namespace heddle::measuring
