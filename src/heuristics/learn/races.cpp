#include "heuristics/learn/races.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "driver/program_args.h"
#include "driver/roof.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/heuristics/collect.h"
#include "heddle/heuristics/train_tree.h"
#include "heddle/support/error.h"
#include "heuristics/collect/drawn.h"
#include "heuristics/collect/rule_schedules.h"

namespace heddle::learning {
namespace {

/// What the rules take for a declaration. Constants that were asked for before are looked up.
class RuleChoice {
 public:
  RuleChoice(bool of_graphs, const Template& rule) : of_graphs_(of_graphs), rule_(rule) {}

  std::string operator()(const RuleConstants& constants) {
    const std::string asked = moved_text(constants, rule_.target().kind);
    const auto [at, is_new] = known_.try_emplace(asked);
    if (is_new) at->second = made(constants);
    return at->second;
  }

 private:
  std::string made(const RuleConstants& constants) const {
    try {
      return schedule_key(rule_schedule(of_graphs_, rule_, constants));
    } catch (const Error&) {
      return "none";  // a rule with such constants makes no schedule: its time is not known
    }
  }

  bool of_graphs_;
  Template rule_;
  std::map<std::string, std::string> known_;
};

std::optional<CalibrationRace> race_of(const HeuristicData& data, const HeuristicProblem& problem,
                                       const Drawn& drawn, const RaceSource& source) {
  const BuildOutcome outcome =
      build_choices(source.heuristic, drawn.problem.outputs, source.target, drawn.question);
  if (outcome.built.empty()) return std::nullopt;
  const BuiltChoices& built = outcome.built.front();
  CalibrationRace race{.id = problem.id, .choose = {}, .seconds = {}, .noise = problem.noise};
  race.least_seconds =
      driver::least_seconds(driver::work_of(ComputeDag(drawn.problem.outputs), source.target));
  const double of_rule = problem.seconds[static_cast<std::size_t>(problem.fallback)];
  // Logs say under which key the time of the rule is. In those of earlier versions it is that of the rule as it is now, unless
  // a choice makes the same.
  const bool has_rule = std::ranges::any_of(
      problem.of_constants, [&](const auto& known) { return known.second == of_rule; });
  const std::string of_now = schedule_key(built.schedules.front());
  if (!has_rule) race.seconds[of_now] = of_rule;
  // What a choice leaves open is the rule's, so that ids of another rule are other schedules.
  const auto at_rule = problem.of_constants.find(of_now);
  const bool same_rule =
      !has_rule || (at_rule != problem.of_constants.end() && at_rule->second == of_rule);
  for (const auto& [id, schedule] : built.choices) {
    if (!same_rule && !source.heuristic.of_graphs) break;
    const auto at = std::ranges::lower_bound(data.choices, id);
    if (at == data.choices.end() || *at != id) continue;
    const auto c = static_cast<std::int32_t>(at - data.choices.begin());
    if (c != problem.fallback && problem.has(c))
      race.seconds[schedule_key(built.schedules[schedule])] =
          problem.seconds[static_cast<std::size_t>(c)];
  }
  for (const auto& [key, seconds] : problem.of_constants) race.seconds[key] = seconds;
  race.choose = [rule = std::make_shared<RuleChoice>(source.heuristic.of_graphs, built.rule)](
                    const RuleConstants& constants) { return (*rule)(constants); };
  return race;
}

}  // namespace

std::vector<CalibrationRace> races_of(const HeuristicData& data, const RaceSource& source) {
  std::vector<CalibrationRace> races;
  if (source.heuristic.measure || !source.heuristic.of_template()) return races;
  const double most_noise = TrainOptions().most_noise;
  std::map<std::string, const HeuristicProblem*> wanted;
  for (const HeuristicProblem& p : data.problems) {
    if (p.noise <= most_noise) wanted[p.id] = &p;
  }
  const auto take = [&](const Drawn& drawn) {
    const auto at = wanted.find(drawn.problem.id);
    if (at == wanted.end()) return;
    if (auto race = race_of(data, *at->second, drawn, source)) races.push_back(*std::move(race));
    wanted.erase(at);
  };
  const auto done = [&] { return wanted.empty() || (source.expired && source.expired()); };
  for (const DrawnProblem& problem : source.first) {
    for (std::size_t q = 0; q < kMostQuestions && !done(); ++q)
      take(with_question(source.heuristic, problem, q));
  }
  // Most drawn problems are measured, others have one choice alone.
  const std::uint64_t most = 20 * data.problems.size() + 1000;
  for (std::uint64_t i = 0; i < most && source.heuristic.draw && !done(); ++i)
    take(draw_problem(source.heuristic, source.target, source.seed, i));
  return races;
}

HeuristicData with_rule_of(const HeuristicData& data, const std::vector<CalibrationRace>& races,
                           const RuleConstants& constants) {
  const bool moved = !(constants == default_constants());
  std::map<std::string, double> seconds;
  for (const CalibrationRace& r : races) {
    const auto at = r.seconds.find(r.choose(constants));
    seconds[r.id] = at != r.seconds.end() ? at->second : kNotMeasured;
  }
  HeuristicData out = data;
  std::erase_if(out.problems, [&](const HeuristicProblem& p) {
    const auto at = seconds.find(p.id);
    return at == seconds.end() ? moved : std::isnan(at->second);
  });
  for (HeuristicProblem& p : out.problems) {
    const auto at = seconds.find(p.id);
    if (at != seconds.end()) p.seconds[static_cast<std::size_t>(p.fallback)] = at->second;
  }
  return out;
}

}  // namespace heddle::learning
