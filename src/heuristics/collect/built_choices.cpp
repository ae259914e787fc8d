// Builds the schedules that the candidates of a heuristic make for a declaration.
#include <algorithm>
#include <map>
#include <utility>

#include "heddle/heuristics/collect.h"
#include "heddle/support/error.h"
#include "heuristics/collect/planted_choice.h"
#include "measure/task/steps_hash.h"
#include "schedule/templates/config_moves.h"
#include "schedule/templates/graph_choice.h"

namespace heddle {

using namespace learning;
namespace {

constexpr const char* kPlanted = "planted";

// A heuristic that does not choose graphs is measured on the graph as declared. One that chooses
// graphs is measured with the rules' own schedules.
AutoSchedulerOptions options_for(const Heuristic& heuristic) {
  AutoSchedulerOptions options;
  options.use_records = false;
  options.use_alternatives = heuristic.of_graphs;
  options.use_heuristics = !heuristic.of_graphs;
  return options;
}

/// Why `made` does not have the planted choice; empty where it has. Knobs that this shape does not
/// have are ignored.
std::string why_not_taken(const Template& made) {
  for (const TemplateRecording::Refusal& r : made.refusals()) {
    if (r.source.empty() || r.source == kPlanted) return r.why;
  }
  return "";
}

/// The choices of one knob that are a move away from the static choice of `made`, among the knobs
/// of the rule's choice.
std::vector<ParameterSet> moves_of(const Template& made, const Choice& of_rule) {
  const Config start = made.default_config();
  std::vector<ParameterSet> all;
  for (const Config& moved : ConfigMoves(made).neighbours(start)) {
    const auto [at, was] = std::mismatch(moved.values.begin(), moved.values.end(),
                                         start.values.begin(), start.values.end());
    const std::string& full =
        made.knobs()[static_cast<std::size_t>(at - moved.values.begin())].name;
    const std::string knob = full.substr(full.rfind('.') + 1);  // without its group
    if (of_rule.has(knob)) all.push_back(ParameterSet().set(knob, *at));
  }
  return all;
}

class Builder {
 public:
  Builder(const Heuristic& heuristic, const ComputeDag& dag, const Target& target,
          std::size_t question)
      : heuristic_(heuristic),
        dag_(dag),
        target_(target),
        question_(question),
        options_(options_for(heuristic)) {}

  BuildOutcome build() {
    const auto listener = std::make_shared<ListeningSource>(heuristic_.name);
    Template rule = made_with(listener);
    const std::vector<AskedQuestion>& asked = listener->asked();
    if (asked.empty()) return {"no template asks '" + heuristic_.name + "' about it"};
    const AskedQuestion& question = asked[question_ % asked.size()];
    const Situation problem{FeatureView(question.features), question.rule};
    if (!heuristic_.applies(problem)) return {"the heuristic is not made for it"};
    // A heuristic of graphs is measured with a template that has all graphs as branches.
    if (heuristic_.of_graphs) rule = make_template_of_alternatives(dag_, target_, options_);
    BuildOutcome out;
    out.built.push_back({.features = question.features,
                         .of_rule = question.rule,
                         .rule = rule,
                         .question = question_ % asked.size()});
    BuiltChoices& built = out.built.front();
    if (question_ >= asked.size()) return out;
    built.fallback = heuristic_.id_of(heuristic_.fallback);
    add(built, built.fallback, rule.static_schedule());
    for (const ParameterSet& choice :
         heuristic_.candidates ? heuristic_.candidates(problem) : moves_of(rule, question.rule))
      try_out(built, choice, problem);
    return out;
  }

 private:
  Template made_with(std::shared_ptr<const ChoiceSource> source) const {
    return heuristic_.of_graphs
               ? make_static_template_with(dag_, target_, options_, std::move(source))
               : make_template_with(dag_, target_, options_, std::move(source));
  }

  void try_out(BuiltChoices& built, const ParameterSet& choice, const Situation& problem) {
    const std::string id = heuristic_.id_of(choice);
    std::string why = heuristic_.why_not(choice, problem);
    if (why.empty()) {
      Choice planted(kPlanted);
      const Choice resolved = heuristic_.knobs_of(choice, problem);
      for (const std::string& knob : resolved.knobs()) planted.set(knob, resolved.value(knob));
      try {
        const Template made = made_with(planted_choice(heuristic_.name, planted, built.features));
        why = why_not_taken(made);
        if (why.empty()) add(built, id, made.static_schedule());
      } catch (const Error& e) {
        why = e.message;
      }
    }
    if (!why.empty()) built.rejections.push_back(id + ": " + why);
  }

  void add(BuiltChoices& built, const std::string& id, const Schedule& schedule) {
    const auto [known, is_new] =
        by_steps_.emplace(measuring::steps_hash(schedule), built.schedules.size());
    if (is_new) built.schedules.push_back(schedule);
    for (const auto& [other, index] : built.choices) {
      if (other == id) return;
    }
    built.choices.emplace_back(id, known->second);
  }

  const Heuristic& heuristic_;
  const ComputeDag& dag_;
  const Target& target_;
  std::size_t question_;
  AutoSchedulerOptions options_;
  std::map<std::uint64_t, std::size_t> by_steps_;
};

}  // namespace

BuildOutcome build_choices(const Heuristic& heuristic, const std::vector<Tensor>& outputs,
                           const Target& target, std::size_t question) {
  HEDDLE_ICHECK(heuristic.of_template(),
                "heuristic '" + heuristic.name + "' is not one of a meta-template");
  return Builder(heuristic, ComputeDag(outputs), target, question).build();
}

}  // namespace heddle
