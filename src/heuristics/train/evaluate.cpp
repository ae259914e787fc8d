#include "heuristics/train/evaluate.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <utility>

#include "heddle/heuristics/trained_tree.h"
#include "heddle/support/error.h"
#include "heuristics/same_features.h"
#include "heuristics/train/usable_problems.h"

namespace heddle::learning {
namespace {

/// The position of each choice of the tree in the list of the data; -2 where the data never has it.
std::vector<std::int32_t> places_of(const TreeTable& tree, const HeuristicData& data) {
  std::vector<std::int32_t> places;
  for (const std::string_view choice : tree.choices) {
    const auto at = std::lower_bound(data.choices.begin(), data.choices.end(), choice);
    const bool there = at != data.choices.end() && *at == choice;
    places.push_back(there ? static_cast<std::int32_t>(at - data.choices.begin()) : -2);
  }
  return places;
}

EvaluatedProblem evaluate_problem(const TreeHolder& holder, const std::vector<std::int32_t>& places,
                                  const HeuristicProblem& problem) {
  EvaluatedProblem out;
  out.id = problem.id;
  out.best = problem.best();
  out.rule = problem.seconds[static_cast<std::size_t>(problem.fallback)];
  out.noise = problem.noise;
  const TreeTable& tree = holder.table();
  TreeAnswer answer = answer_of(tree, problem.features);
  if (answer.leaf >= 0) {
    answer.feature = unlike_kinds(tree.features, holder.kinds(), problem.features);
    if (answer.feature >= 0) answer = {.doubt = Doubt::Range, .feature = answer.feature};
  }
  out.verdict = answer.verdict;
  out.doubt = answer.doubt;
  if (answer.verdict == LeafVerdict::Choice) {
    const std::int32_t place = places[static_cast<std::size_t>(answer.choice)];
    if (problem.has(place)) {
      out.choice = place;
      out.expected = answer.expected;
    } else {
      out.verdict = LeafVerdict::Rule;
    }
  }
  out.seconds =
      out.choice == kRuleChoice ? out.rule : problem.seconds[static_cast<std::size_t>(out.choice)];
  return out;
}

template <typename Ratio>
RatioFigures figures_of(const std::vector<EvaluatedProblem>& problems, Ratio ratio) {
  RatioFigures figures;
  double sum = 0;
  bool first = true;
  for (const EvaluatedProblem& p : problems) {
    const double r = ratio(p);
    sum += std::log(r);
    if (first || r > figures.worst) {
      figures.worst = r;
      figures.worst_problem = p.id;
    }
    first = false;
  }
  if (!problems.empty()) figures.mean = std::exp(sum / static_cast<double>(problems.size()));
  return figures;
}

void count_answer(const EvaluatedProblem& p, TreeEvaluation& out) {
  switch (p.doubt) {
    case Doubt::None: ++(p.verdict == LeafVerdict::Choice ? out.chose : out.kept_rule); break;
    case Doubt::Leaf: ++out.unsure_leaf; break;
    case Doubt::Range: ++out.unsure_range; break;
    case Doubt::Category:
    case Doubt::NotKnown:
    case Doubt::WrongNumber: ++out.unsure_category; break;
  }
  const double noise = std::max(p.noise, TrainOptions().least_noise);
  out.faster += p.seconds * (1 + noise) < p.rule;
  out.slower += p.seconds > p.rule * (1 + noise);
}

/// The means of the problems for which a choice was answered.
void compare_predictions(const std::vector<EvaluatedProblem>& problems, TreeEvaluation& out) {
  double predicted = 0, measured = 0, count = 0;
  for (const EvaluatedProblem& p : problems) {
    if (p.choice == kRuleChoice) continue;
    predicted += p.expected;
    measured += std::log(p.seconds / p.rule);
    ++count;
  }
  if (count == 0) return;
  out.chosen_predicted = std::exp(predicted / count);
  out.chosen_measured = std::exp(measured / count);
}

TreeEvaluation summed_up(std::vector<EvaluatedProblem> problems) {
  TreeEvaluation out;
  for (const EvaluatedProblem& p : problems) count_answer(p, out);
  compare_predictions(problems, out);
  out.tree_over_best = figures_of(problems, [](const auto& p) { return p.seconds / p.best; });
  out.rule_over_best = figures_of(problems, [](const auto& p) { return p.rule / p.best; });
  out.tree_over_rule = figures_of(problems, [](const auto& p) { return p.seconds / p.rule; });
  out.problems = std::move(problems);
  return out;
}

}  // namespace

TreeEvaluation evaluate_tree(const TreeHolder& tree, const HeuristicData& data) {
  check_same_features(tree.table(), data);
  const std::vector<std::int32_t> places = places_of(tree.table(), data);
  std::vector<EvaluatedProblem> problems;
  for (const HeuristicProblem& p : data.problems) {
    problems.push_back(evaluate_problem(tree, places, p));
  }
  return summed_up(std::move(problems));
}

TreeEvaluation cross_evaluate(const HeuristicData& data, const TrainOptions& options, int folds) {
  if (folds < 2) throw_user_error("an evaluation needs 2 folds at least");
  // The folds differ from those of training, which draws from the seed itself.
  const std::vector<std::int32_t> fold = folds_of(data, folds, options.seed + 1);
  std::vector<EvaluatedProblem> problems;
  for (int f = 0; f < folds; ++f) {
    std::vector<std::int32_t> seen, held_out;
    for (std::size_t p = 0; p < fold.size(); ++p) {
      (fold[p] == f ? held_out : seen).push_back(static_cast<std::int32_t>(p));
    }
    const TreeHolder tree(train_tree(subset(data, seen), options));
    TreeEvaluation part = evaluate_tree(tree, subset(data, held_out));
    std::move(part.problems.begin(), part.problems.end(), std::back_inserter(problems));
  }
  std::sort(problems.begin(), problems.end(),
            [](const auto& a, const auto& b) { return a.id < b.id; });
  return summed_up(std::move(problems));
}

std::vector<MachineLeftOut> leave_machines_out(const std::vector<HeuristicData>& logs,
                                               const TrainOptions& options) {
  std::map<std::string, std::vector<HeuristicData>> of_machines;
  for (const HeuristicData& log : logs) {
    if (!log.machine.empty()) of_machines[log.machine].push_back(log);
  }
  std::vector<MachineLeftOut> out;
  if (of_machines.size() < 2) return out;
  for (const auto& [machine, own] : of_machines) {
    std::vector<HeuristicData> others;
    for (const auto& [other, theirs] : of_machines) {
      if (other != machine) others.insert(others.end(), theirs.begin(), theirs.end());
    }
    const HeuristicData seen = merge(others), held_out = merge(own);
    if (std::ssize(usable_problems(seen, options)) < 2 * options.folds) continue;
    const TreeHolder tree(train_tree(seen, options));
    out.push_back({machine, evaluate_tree(tree, held_out)});
  }
  return out;
}

Json to_json(const std::vector<MachineLeftOut>& machines) {
  Json list = Json::array();
  for (const MachineLeftOut& m : machines)
    list.push_back(Json::object({{"machine", m.machine},
                                 {"problems", static_cast<int64_t>(m.worth.problems.size())},
                                 {"rule_over_best", m.worth.rule_over_best.mean},
                                 {"tree_over_best", m.worth.tree_over_best.mean},
                                 {"tree_over_rule", m.worth.tree_over_rule.mean},
                                 {"unsure", m.worth.unsure_share()}}));
  return list;
}

double TreeEvaluation::unsure_share() const {
  return problems.empty() ? 0 : unsure() / static_cast<double>(problems.size());
}

}  // namespace heddle::learning
