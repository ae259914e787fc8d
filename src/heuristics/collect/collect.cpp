#include "heddle/heuristics/collect.h"

#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>

#include "heddle/heuristics/train_tree.h"
#include "heddle/support/error.h"
#include "heuristics/collect/drawn.h"
#include "heuristics/collect/measure_choices.h"
#include "heuristics/collect/quiet.h"
#include "heuristics/collect/rule_schedules.h"

namespace heddle {

using namespace learning;
namespace {

class Collector {
 public:
  Collector(const Heuristic& heuristic, const CollectOptions& options)
      : h_(heuristic),
        o_(options),
        own_clock_(options.budget.count()),
        clock_(options.clock ? *options.clock : own_clock_),
        log_(options.log, heuristic,
             options.machine.empty() ? options.target.chip() : options.machine,
             to_string(options.target), options.seed) {
    report_.earlier = static_cast<int>(log_.size());
    if (o_.measurer != nullptr || h_.measure) return;
    own_measurer_ =
        o_.target.is_cuda() ? make_cuda_measurer({.turns = o_.turns}) : make_worker_measurer();
  }

  CollectReport run() {
    for (const DrawnProblem& problem : o_.first) {
      for (std::size_t question = 0; question < kMostQuestions; ++question)
        take(with_question(h_, problem, question));
    }
    int vain = 0;
    for (std::uint64_t i = 0; report_.ended == CollectEnd::None; ++i) {
      vain = take(draw_problem(h_, o_.target, o_.seed, i)) ? 0 : vain + 1;
      const bool foreign = report_.collected + report_.earlier + report_.failed == 0 &&
                           report_.skipped >= kForeignDraws;
      if (vain == kVainDraws || foreign) report_.ended = CollectEnd::Problems;
    }
    show("");
    return report_;
  }

 private:
  // The number of consecutive draws without a new problem after which the space is taken to be
  // exhausted.
  static constexpr int kVainDraws = 2000;
  // Drawn problems of which none is the heuristic's, after which the machine is taken to have none, as one without tile registers.
  static constexpr int kForeignDraws = 100;
  // The share of the time that a run waits for quiet at most.
  static constexpr double kWaitingShare = 0.2;

  // Measures the problem unless the run has ended. Returns false for a problem that is not new.
  bool take(const Drawn& drawn) {
    const DrawnProblem& problem = drawn.problem;
    if (clock_.expired()) {
      report_.ended = clock_.cancelled() ? CollectEnd::Cancelled : CollectEnd::Budget;
    } else if (log_.has(problem.id) || !seen_.insert(problem.id).second) {
      return false;
    } else if (report_.ended == CollectEnd::None) {
      show(problem.id);
      h_.measure ? measure_own(problem) : measure_built(problem, drawn.question);
      if (o_.problems > 0 && report_.collected >= o_.problems) report_.ended = CollectEnd::Problems;
    }
    return true;
  }

  Measurer& measurer() { return o_.measurer ? *o_.measurer : *own_measurer_; }

  void fail(const std::string& problem, const std::string& why) {
    ++report_.failed;
    report_.problems.push_back(problem + ": " + why);
  }

  void measure_built(const DrawnProblem& problem, std::size_t question) {
    BuildOutcome outcome = build_choices(h_, problem.outputs, o_.target, question);
    // A number beyond the last question repeats another problem.
    if (outcome.built.empty() || outcome.built.front().question != question) {
      ++report_.skipped;
      return;
    }
    BuiltChoices& built = outcome.built.front();
    add_schedules_of_constants(h_.of_graphs, built);
    if (built.schedules.size() < 2) {
      ++report_.skipped;
      return;
    }
    TuneTask task{.name = problem.id, .args = built.rule.dag().placeholders(), .tmpl = built.rule};
    task.args.insert(task.args.end(), problem.outputs.begin(), problem.outputs.end());
    ChoiceTimes times = measure_choices(measurer(), task, built.schedules, clock_);
    if (times.complete && times.problem.empty()) repeat_if_noisy(task, built.schedules, times);
    if (!times.problem.empty()) return fail(problem.id, times.problem);
    if (!times.complete) return;  // the clock expired
    std::vector<std::pair<std::string, double>> ids;
    for (const auto& [id, schedule] : built.choices) {
      if (!std::isnan(times.seconds[schedule])) ids.emplace_back(id, times.seconds[schedule]);
    }
    // Keys tell later versions of the rule what they know: an id leaves knobs to the rule of now.
    std::map<std::string, double> of_constants;
    for (std::size_t i = 0; i < built.schedules.size(); ++i) {
      if (!std::isnan(times.seconds[i]))
        of_constants[schedule_key(built.schedules[i])] = times.seconds[i];
    }
    log_.add(problem.id, built.features, ids, times.noise, of_constants);
    ++report_.collected;
  }

  // Measures a problem once more, and first waits for quiet, where its times are too uncertain to count.
  void repeat_if_noisy(const TuneTask& task, std::span<const Schedule> schedules,
                       ChoiceTimes& times) {
    if (times.noise <= TrainOptions().most_noise) return;
    if (!o_.target.is_cuda()) {
      const double budget = clock_.elapsed_s() + clock_.left_s();
      report_.waited_seconds +=
          wait_for_quiet(kWaitingShare * budget - report_.waited_seconds, clock_);
    }
    if (clock_.expired()) return;
    ++report_.repeated;
    ChoiceTimes again = measure_choices(measurer(), task, schedules, clock_);
    if (again.complete && again.problem.empty() && again.noise < times.noise)
      times = std::move(again);
  }

  // Measures choices that the program runs itself. They run in rounds, so that a disturbance
  // affects all.
  void measure_own(const DrawnProblem& problem) {
    constexpr int kRounds = 7;
    const Choice nothing;
    const Situation situation{FeatureView(problem.features), nothing};
    if (!h_.applies(situation)) {
      ++report_.skipped;
      return;
    }
    std::vector<std::pair<ParameterSet, double>> choices{
        {h_.fallback, std::numeric_limits<double>::infinity()}};
    for (const ParameterSet& c : h_.candidates(situation)) {
      if (!(c == h_.fallback) && h_.why_not(c, situation).empty())
        choices.emplace_back(c, std::numeric_limits<double>::infinity());
    }
    for (int round = 0; round < kRounds; ++round) {
      for (auto& [choice, seconds] : choices)
        seconds = std::min(seconds, h_.measure(problem, choice));
    }
    log_.add(problem.id, problem.features, choices);
    ++report_.collected;
  }

  void show(const std::string& problem) {
    if (!o_.progress) return;
    o_.progress({problem, report_.collected, report_.earlier, report_.skipped,
                 own_clock_.elapsed_s(), clock_.left_s()});
  }

  const Heuristic& h_;
  const CollectOptions& o_;
  TuneClock own_clock_;
  TuneClock& clock_;
  HeuristicLog log_;
  std::unique_ptr<Measurer> own_measurer_;
  std::set<std::string> seen_;  ///< problems seen by this run
  CollectReport report_;
};

}  // namespace

const char* to_string(CollectEnd end) {
  switch (end) {
    case CollectEnd::None: return "";
    case CollectEnd::Budget: return "budget";
    case CollectEnd::Problems: return "problems";
    case CollectEnd::Cancelled: return "cancelled";
  }
  return "";
}

CollectReport collect(const Heuristic& heuristic, const CollectOptions& options) {
  if (!heuristic.draw)
    throw_user_error("heuristic '" + heuristic.name + "' draws no problems", {},
                     "write what is measured to a HeuristicLog instead");
  if (!heuristic.target_kind.empty() && heuristic.target_kind != options.target.kind)
    throw_user_error("heuristic '" + heuristic.name + "' is for targets of kind '" +
                         heuristic.target_kind + "', not '" + options.target.kind + "'",
                     {}, heuristic.target_kind == "cuda" ? "--target cuda" : "--target llvm");
  if (options.log.empty())
    throw_user_error("CollectOptions: log is empty", {}, "name the file that lines go to");
  return Collector(heuristic, options).run();
}

}  // namespace heddle
