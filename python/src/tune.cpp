// Tuning in a thread of its own, which Python watches: progress is asked for, and Ctrl-C cancels the clock.
#include <nanobind/stl/string_view.h>

#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <sstream>
#include <thread>

#include "bind.h"

namespace heddle::python {
namespace {

/// What tuning gives: the plan of a network, or the schedule of a declaration.
struct Tuned {
  TuneReport report;
  std::optional<NetworkPlan> plan;
  std::optional<Schedule> schedule;
};

/// A run of the tuner. The destructor cancels it and waits.
class TuneRun {
 public:
  using Work = std::function<Tuned(TuneOptions)>;
  TuneRun(double budget_s, TuneOptions options, Work work) : clock_(budget_s) {
    options.clock = &clock_;
    options.progress = [this](const TuneProgress& p) {
      const std::lock_guard lock(mutex_);
      progress_ = p;
    };
    thread_ = std::thread([this, options = std::move(options), work = std::move(work)]() mutable {
      try {
        result_ = work(std::move(options));
      } catch (...) {
        failure_ = std::current_exception();
      }
      const std::lock_guard lock(mutex_);
      done_ = true;
      ended_.notify_all();
    });
  }
  ~TuneRun() {
    clock_.cancel();
    const WithoutGil unlocked;
    if (thread_.joinable()) thread_.join();
  }

  /// Waits for at most `seconds`. Returns whether the run has ended.
  bool wait(double seconds) {
    const WithoutGil unlocked;
    std::unique_lock lock(mutex_);
    return ended_.wait_for(lock, std::chrono::duration<double>(seconds), [this] { return done_; });
  }
  void cancel() { clock_.cancel(); }
  TuneProgress progress() {
    const std::lock_guard lock(mutex_);
    return progress_;
  }
  const Tuned& result() {
    {
      const WithoutGil unlocked;
      if (thread_.joinable()) thread_.join();
    }
    if (failure_) std::rethrow_exception(failure_);
    result_.report.cancelled = result_.report.cancelled || clock_.cancelled();
    return result_;
  }

 private:
  TuneClock clock_;
  std::mutex mutex_;
  std::condition_variable ended_;
  TuneProgress progress_;
  bool done_ = false;
  Tuned result_;
  std::exception_ptr failure_;
  std::thread thread_;
};

TuneOptions options_of(const std::string& log, int max_trials, double until, uint64_t seed) {
  TuneOptions options;
  options.log = log;
  options.max_trials = max_trials;
  options.until = until;
  options.seed = seed;
  return options;
}

TuneRun* start_network(const Network& network, const std::vector<Dim>& dims, double budget_s,
                       const std::string& log, int max_trials, double until, uint64_t seed,
                       const std::string& plan_file) {
  return new TuneRun(budget_s, options_of(log, max_trials, until, seed),
                     [=](const TuneOptions& options) {
                       NetworkTuneOptions how;
                       how.plan_file = plan_file;
                       how.dims = dims;
                       const TunedNetwork tuned = tune_network(network, options, how);
                       return Tuned{tuned.report, plan_of(tuned), {}};
                     });
}

TuneRun* start_outputs(const Outputs& outputs, double budget_s, const std::string& log,
                       int max_trials, double until, uint64_t seed,
                       const std::optional<Target>& target, const nb::dict& keywords) {
  TuneOptions options = options_of(log, max_trials, until, seed);
  options.target = target_or_host(target);
  options.scheduler = heddle::python::options_of(keywords);
  return new TuneRun(budget_s, options, [list = outputs.list](const TuneOptions& given) {
    const ScopedThreads threads(given.target->is_cuda() ? 1 : given.target->cores);
    const TuneResult result = tune(list, given);
    return Tuned{result.report, {}, result.schedule};
  });
}

void bind_results(nb::module_& m) {
  nb::class_<TaskResult>(
      m, "TaskResult",
      "The result of tuning one kernel. Times are seconds of a call, medians of the final race.")
      .def_ro("name", &TaskResult::name)
      .def_ro("static_seconds", &TaskResult::static_seconds, "With the static choice.")
      .def_ro("best_seconds", &TaskResult::best_seconds, "With the schedule that was found.")
      .def_ro("trials", &TaskResult::trials)
      .def_ro("failures", &TaskResult::failures)
      .def_ro("improved", &TaskResult::improved, "False: the static choice was kept.")
      .def_ro("near", &TaskResult::near,
              "The probability that the best is within TuneReport.within of what more tuning would "
              "find.")
      .def_ro("schedule", &TaskResult::schedule);
  nb::class_<NetworkTimes>(m, "NetworkTimes", "The race of a whole network.")
      .def_ro("static_seconds", &NetworkTimes::static_seconds)
      .def_ro("standing_seconds", &NetworkTimes::standing_seconds,
              "With the plan that tuning went on from; 0 without one.")
      .def_ro("best_seconds", &NetworkTimes::best_seconds)
      .def_ro("rounds", &NetworkTimes::rounds)
      .def_prop_ro(
          "verdict", [](const NetworkTimes& t) { return to_string(t.verdict); },
          "How it ended: \"faster\", \"not proven\", \"no time\" and others.");
  nb::class_<TuneReport>(m, "TuneReport", "The results of tuning.", nb::dynamic_attr())
      .def_ro("tasks", &TuneReport::tasks)
      .def_ro("trials", &TuneReport::trials)
      .def_ro("within", &TuneReport::within)
      .def_ro("another_minute", &TuneReport::another_minute,
              "The share of the time that another minute would save on average.")
      .def_ro("elapsed_seconds", &TuneReport::elapsed_seconds)
      .def_ro("cancelled", &TuneReport::cancelled, "By Ctrl-C; what was found until then is kept.")
      .def_prop_ro(
          "ended", [](const TuneReport& r) { return to_string(r.ended); },
          "Why it ended: \"budget\", \"trials\", \"converged\", \"cancelled\" or \"failed\".")
      .def_ro("network", &TuneReport::network,
              "The race of the whole network; None where there was none.")
      .def_ro("log", &TuneReport::log)
      .def_ro("problems", &TuneReport::problems, "Failures that did not stop the run.")
      .def("__str__", [](const TuneReport& r) {
        std::ostringstream out;
        out << r;
        return out.str();
      });
}

}  // namespace

void bind_tune(nb::module_& m) {
  bind_results(m);
  nb::class_<NetworkPlan>(m, "Plan", "All that was chosen for a network.")
      .def(nb::init<>())
      .def_static("load", &load_plan, "path"_a)
      .def(
          "save",
          [](NetworkPlan plan, const std::string& path, const std::string& model,
             const std::string& dtype) {
            plan.model = model;
            plan.dtype = dtype;
            save_merged_plan(plan, path);
          },
          "path"_a, "model"_a = "", "dtype"_a = "f32",
          "Writes the plan, or what it betters of the plan that is there.")
      .def(
          "apply",
          [](const NetworkPlan& plan, const Network& network) {
            const WithoutGil unlocked;
            return network.with_plan(plan);
          },
          "network"_a)
      .def("__str__", [](const NetworkPlan& plan) { return to_text(plan); });
  nb::class_<Tuned>(m, "Tuned")
      .def_ro("report", &Tuned::report)
      .def_ro("plan", &Tuned::plan)
      .def_ro("schedule", &Tuned::schedule);
  nb::class_<TuneProgress>(m, "TuneProgress", "The state of a run. Times are in seconds.")
      .def_ro("phase", &TuneProgress::phase)
      .def_ro("trials", &TuneProgress::trials)
      .def_ro("elapsed_seconds", &TuneProgress::elapsed_seconds)
      .def_ro("left_seconds", &TuneProgress::left_seconds)
      .def_ro("static_seconds", &TuneProgress::static_seconds,
              "Of a call, with the static choices; 0: not measured yet.")
      .def_ro("best_seconds", &TuneProgress::best_seconds, "Of a call, with the best so far.");
  nb::class_<TuneRun>(m, "TuneRun", "A run of the tuner in a thread of its own.")
      .def("wait", &TuneRun::wait, "seconds"_a)
      .def("cancel", &TuneRun::cancel)
      .def("progress", &TuneRun::progress)
      .def("result", &TuneRun::result, nb::rv_policy::copy);
  m.def("_tune_network", &start_network, "network"_a, "dims"_a, "budget_s"_a, "log"_a,
        "max_trials"_a, "until"_a, "seed"_a, "plan_file"_a, nb::rv_policy::take_ownership);
  m.def("_tune_outputs", &start_outputs, "outputs"_a, "budget_s"_a, "log"_a, "max_trials"_a,
        "until"_a, "seed"_a, "target"_a, "options"_a, nb::rv_policy::take_ownership);
}

}  // namespace heddle::python
