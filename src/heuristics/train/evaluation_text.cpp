// An evaluation as a table and as JSON.
#include "heuristics/names.h"
#include "heuristics/train/evaluate.h"
#include "support/table.h"

namespace heddle::learning {
namespace {

Json figures_json(const RatioFigures& figures) {
  return Json::object(
      {{"mean", figures.mean}, {"worst", figures.worst}, {"worst_problem", figures.worst_problem}});
}

Json problem_json(const EvaluatedProblem& p) {
  return Json::object({{"problem", p.id},
                       {"best", p.best},
                       {"rule", p.rule},
                       {"tree", p.seconds},
                       {"expected", p.choice == kRuleChoice ? Json() : Json(p.expected)},
                       {"verdict", to_string(p.verdict)},
                       {"doubt", p.doubt == Doubt::None ? Json() : Json(to_string(p.doubt))}});
}

std::string counted(int count, const char* what) { return std::to_string(count) + what; }

}  // namespace

Json TreeEvaluation::to_json(bool with_problems) const {
  Json json = Json::object({{"problems", problems.size()},
                            {"tree_over_best", figures_json(tree_over_best)},
                            {"rule_over_best", figures_json(rule_over_best)},
                            {"tree_over_rule", figures_json(tree_over_rule)},
                            {"chose", chose},
                            {"kept_rule", kept_rule},
                            {"unsure", unsure()},
                            {"unsure_leaf", unsure_leaf},
                            {"unsure_range", unsure_range},
                            {"unsure_category", unsure_category},
                            {"unsure_share", unsure_share()},
                            {"faster_than_rule", faster},
                            {"slower_than_rule", slower},
                            {"chosen_predicted", chosen_predicted},
                            {"chosen_measured", chosen_measured}});
  if (!with_problems) return json;
  Json rows = Json::array();
  for (const EvaluatedProblem& p : problems) rows.push_back(problem_json(p));
  json["rows"] = std::move(rows);
  return json;
}

std::string TreeEvaluation::to_text() const {
  Table table({"time over", "mean", "worst", "worst problem"});
  table.align_left(3);
  const auto add = [&](const char* what, const RatioFigures& figures) {
    table.add_row({what, format_fixed(figures.mean, 3), format_fixed(figures.worst, 2),
                   figures.worst_problem});
  };
  add("best, of the rule", rule_over_best);
  add("best, of the tree", tree_over_best);
  add("the rule, of the tree", tree_over_rule);
  return table.to_string() + counted(static_cast<int>(problems.size()), " held-out problems: ") +
         counted(chose, " choices, ") + counted(kept_rule, " times the rule, ") +
         counted(unsure(), " unsure (") + format_fixed(100 * unsure_share(), 1) +
         " %: " + counted(unsure_leaf, " by their leaf, ") +
         counted(unsure_range, " out of range, ") +
         counted(unsure_category, " of unknown category)\n") +
         counted(faster, " faster than the rule beyond the noise, ") +
         counted(slower, " slower\n") +
         (chose == 0 ? ""
                     : "where a choice was answered: " + format_fixed(chosen_predicted, 3) +
                           " of the rule's time predicted, " + format_fixed(chosen_measured, 3) +
                           " measured\n");
}

}  // namespace heddle::learning
