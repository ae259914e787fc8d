#include <iostream>
#include <memory>

#include "commands.h"
#include "heddle/heuristics/collect.h"
#include "heddle/heuristics/tree_choices.h"
#include "heddle/support/error.h"
#include "heuristic/heuristic.h"
#include "heuristics/explain_tree.h"
#include "heuristics/trees/tree_file.h"
#include "subjects/subjects.h"
#include "subjects/target_text.h"

namespace heddle::cli {
namespace {

std::shared_ptr<const LearnedChoice> tree_for(const Heuristic& h, const Target& target,
                                              const std::string& file) {
  if (!file.empty())
    return std::make_shared<LearnedChoice>(h, learning::read_tree(file), "tree " + file);
  if (auto found = find_tree(h, target)) return found;
  throw_user_error(
      "nothing was learned of '" + h.name + "' for '" + target.kind + "-" + target.chip() + "'", {},
      "name one: --tree FILE, or a folder of them: HEDDLE_TOPHUB=FOLDER");
}

std::string text_of(const Choice& choice) {
  std::string text;
  for (const std::string& knob : choice.knobs())
    text += (text.empty() ? "" : ", ") + knob + " " + std::to_string(choice.value(knob));
  return text;
}

void explain_question(const Heuristic& h, const LearnedChoice& tree, const BuiltChoices& asked,
                      bool json) {
  const Situation problem{FeatureView(asked.features), asked.of_rule};
  const LearnedChoice::Answer answer = tree.answer(problem);
  const std::string knobs = answer.choice ? text_of(h.knobs_of(*answer.choice, problem)) : "";
  if (json) {
    Json features = Json::object();
    const std::vector<double> values = h.values_of(asked.features);
    for (std::size_t i = 0; i < values.size(); ++i) features[h.all_features()[i].name] = values[i];
    std::cout << Json::object({{"heuristic", h.name},
                               {"tree", tree.name()},
                               {"features", std::move(features)},
                               {"choice", answer.choice ? Json(h.id_of(*answer.choice)) : Json()},
                               {"unsure", answer.unsure},
                               {"knobs", knobs},
                               {"why", answer.why},
                               {"path", tree.explain(asked.features)}})
                     .dump(1)
              << "\n";
    return;
  }
  std::cout << tree.explain(asked.features)
            << (answer.choice   ? "so: " + knobs
                : answer.unsure ? std::string("so: the tree is unsure, and the rule decides")
                                : std::string("so: the rule decides"))
            << "\n";
}

}  // namespace

int explain_heuristic(const Request& o) {
  const Heuristic& h = heuristic_of(o.name);
  if (!h.of_template())
    throw_user_error("heuristic '" + o.name + "' is not one of a template's subjects");
  const Target target = target_of(!o.target.empty()         ? o.target
                                  : h.target_kind == "cuda" ? "cuda"
                                                            : "llvm -mcpu=native",
                                  o.threads);
  const std::shared_ptr<const LearnedChoice> tree = tree_for(h, target, o.tree);
  if (o.subject.empty()) {
    const std::string regions = learning::tree_outline(tree->table());
    std::cout << (o.json
                      ? Json::object({{"heuristic", h.name}, {"regions", regions}}).dump(1) + "\n"
                      : regions);
    return 0;
  }
  const Problem subject = make_problem(o.subject, dtype_of(o.dtype));
  for (std::size_t question = 0;; ++question) {
    const BuildOutcome outcome = build_choices(h, subject.outputs, target, question);
    if (outcome.built.empty())
      throw_user_error("'" + o.name + "' gives no answer for " + o.subject + ": " +
                       outcome.why_not);
    if (outcome.built.front().question != question) break;  // there are no further questions
    if (question > 0 && !o.json) std::cout << "\n";
    explain_question(h, *tree, outcome.built.front(), o.json);
  }
  return 0;
}

}  // namespace heddle::cli
