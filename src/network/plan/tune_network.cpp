// Tuning a network from its graph to the plan.
#include "heddle/network/tune.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "heddle/records/record_log.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/support/error.h"
#include "network/plan/planned_schedules.h"
#include "network/race/call_timer.h"
#include "search/tuner.h"

namespace heddle {
namespace network {
namespace {

/// The share of the budget in which the kernels of a network over ranges of sizes race.
constexpr double kShareOfSizes = 0.15;

bool is_file(const std::string& path) {
  std::error_code error;
  return !path.empty() && std::filesystem::is_regular_file(path, error);
}

uint64_t hash_of(const Network& network) { return ComputeDag(network.outputs()).structural_hash(); }

const Target& target_of(const Network& network) { return network.tasks().at(0).tmpl.target(); }

/// One run of tuning.
class Tuning {
 public:
  Tuning(const Network& network, const TuneOptions& options, const NetworkTuneOptions& how)
      : options_(options),
        how_(how),
        found_{.network = network, .choices = {network.pass_options(), {}}} {}

  TunedNetwork run() {
    if (how_.race_here) search::check_tuning(found_.network.tasks(), options_);
    go_on_from_plan();
    const double budget = seconds(), for_sizes = races_sizes() ? kShareOfSizes * budget : 0;
    TuneClock clock(budget - for_sizes, options_.clock);
    try_choices(clock);
    if (how_.chosen) how_.chosen(found_.network, found_.choices);
    tune_tasks(clock);
    if (for_sizes > 0 && !found_.report.cancelled) race_sizes(for_sizes);
    return std::move(found_);
  }

 private:
  /// The budget; that of the caller's clock where there is one that ends.
  double seconds() const {
    const double left = options_.clock ? options_.clock->left_s() : options_.budget.count();
    return std::isfinite(left) ? left : options_.budget.count();
  }

  bool races_sizes() const { return !how_.dims.empty() && how_.race_here; }

  void go_on_from_plan() {
    if (!is_file(how_.plan_file)) return;
    const NetworkPlan& earlier = earlier_.emplace(load_plan(how_.plan_file));
    const Network& network = found_.network;
    const bool here = earlier.target == target_of(network), own = earlier.hash == hash_of(network);
    if (!here || !(own || how_.plan_of_others))
      throw_user_error("'" + how_.plan_file + "' is the plan of another " +
                           (here ? "network" : "target: '" + to_string(earlier.target) + "'"),
                       {}, "name another file, or remove this one");
    const std::string passes = earlier.passes;
    keep_types(network.pass_options());
    found_.network = network.with_plan(earlier);
    found_.choices.options = found_.network.pass_options();
    found_.choices_proven = own && earlier.passes_proof == PlanProof::Race &&
                            passes == to_string(found_.network.pass_options());
    if (!options_.log.empty()) record_plan(found_.network, earlier, options_.log);
  }

  /// Types of products that the network has for a tolerance replace those of the plan.
  void keep_types(const PassOptions& of_network) {
    if (of_network.tolerance == 0) return;
    PassOptions passes = parse_passes(earlier_->passes);
    passes.types = of_network.types;
    passes.tolerance = of_network.tolerance;
    earlier_->passes = to_string(passes);
  }

  void try_choices(const TuneClock& clock) {
    if (!how_.race_here || found_.choices_proven) return;
    Network& network = found_.network;
    const std::string subject = how_.subject.empty() ? network.outputs()[0].name() : how_.subject;
    found_.choices = tune_passes(network, subject, options_.log, clock);
    const std::vector<ChoiceTrial>& trials = found_.choices.trials;
    found_.choices_proven =
        !trials.empty() && std::none_of(trials.begin(), trials.end(), [](const auto& t) {
          return t.verdict == TrialResult::NoTime;
        });
    if (!(found_.choices.options == network.pass_options())) take_choices();
  }

  /// The network with the choices about its graph that were taken, and what the plan has for it.
  void take_choices() {
    const PassOptions& chosen = found_.choices.options;
    if (earlier_) earlier_->passes = to_string(chosen);
    found_.network =
        earlier_ ? found_.network.with_plan(*earlier_) : found_.network.with_passes(chosen);
  }

  void tune_tasks(TuneClock& clock) {
    TuneOptions options = options_;
    options.clock = &clock;
    if (options.standing.empty()) options.standing = planned_schedules(found_.network);
    std::optional<ScopedThreads> threads;
    std::unique_ptr<JointRace> race;
    if (how_.race_here) {
      threads.emplace(race_threads(target_of(found_.network)));
      race = make_network_race(found_.network);
      options.joint_race = race.get();
    }
    std::vector<TuneTask> tasks = found_.network.tasks_to_tune();
    TuneReport& report = found_.report;
    report = how_.tune_tasks ? how_.tune_tasks(std::move(tasks), options)
                             : heddle::tune_tasks(std::move(tasks), options);
    report.cancelled = report.cancelled || clock.cancelled();
    if (how_.race_here) report.passes = to_string(found_.network.pass_options());
    const std::vector<std::string>& problems = found_.choices.times.problems;
    report.problems.insert(report.problems.begin(), problems.begin(), problems.end());
  }

  /// Races the tuned schedules at several sizes, and records what was chosen.
  void race_sizes(double seconds) {
    if (how_.racing_sizes) how_.racing_sizes();
    KernelRaceOptions race = how_.sizes;
    race.race_seconds = seconds;
    TuneReport& report = found_.report;
    std::vector<Schedule> schedules;
    for (const TaskResult& task : report.tasks) schedules.push_back(task.schedule);
    found_.kernels = choose_kernels(found_.network, how_.dims, race, schedules);
    if (report.unwritten > 0 || options_.log.empty()) return;
    try {
      record_kernels(found_.network, found_.kernels, options_.log);
    } catch (const Error& e) {
      report.problems.push_back(e.message);
      report.unwritten = 1;
    }
  }

  const TuneOptions& options_;
  const NetworkTuneOptions& how_;
  std::optional<NetworkPlan> earlier_;  ///< that tuning goes on from
  TunedNetwork found_;
};

}  // namespace
}  // namespace network

TunedNetwork tune_network(const Network& network, const TuneOptions& options,
                          const NetworkTuneOptions& how) {
  return network::Tuning(network, options, how).run();
}

TuneReport tune(const Network& network, const TuneOptions& options) {
  const bool here = !options.joint_race && !options.measurer;
  return tune_network(network, options, {.race_here = here}).report;
}

NetworkPlan plan_of(const TunedNetwork& tuned) {
  NetworkPlan plan = plan_of(tuned.network, tuned.report, tuned.kernels);
  if (tuned.choices_proven) plan.passes_proof = PlanProof::Race;
  // Schedules race in the graph that was chosen, and the graph has raced that of the rules before.
  const NetworkTimes& graph = tuned.choices.times;
  if (graph.verdict == RaceResult::Faster && graph.best_seconds > 0)
    plan.rule_seconds *= graph.static_seconds / graph.best_seconds;
  if (network::is_file(tuned.report.log))
    add_runners_up(plan, read_records(tuned.report.log).records);
  return plan;
}

}  // namespace heddle
