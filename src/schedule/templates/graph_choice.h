// The choice of the graph of the static choice: that of the declaration, or an alternative of it.
//
// The rule is the graph of the best estimate (dag/alternatives.h). A ChoiceSource may answer in its
// place. It is asked one question, of the heuristic "alternative" or "cuda_alternative", about the
// stage with the most work among those that rules rewrite. The knobs of this question are the forms
// that are legal there; the form whose value is 1 is chosen:
//
//   "direct"            as declared, and the template decides how its reduction goes
//   "direct:whole"      as declared, the reduction in one go
//   "direct:split_k"    as declared, the reduction cut into parts by the template
//   "winograd(tile=4)"  a rule with its parameters, at that stage
//
// The forms with ":" are there where the stage is the only contraction of the graph.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/dag/alternatives.h"
#include "heddle/schedule/choice.h"
#include "heddle/schedule/meta_template.h"

namespace heddle {

/// The forms that are as declared: "direct", "direct:whole" and "direct:split_k".
std::span<const std::string_view> direct_forms();

/// The name of the heuristic that answers for a target.
std::string_view graph_heuristic(const Target& target);

/// The graph that the static choice takes, and why.
struct GraphChoice {
  std::string alternative = {};  ///< a name for apply_alternative; empty: as declared
  /// The value of the knob "reduction": "whole", "split_k", or empty where the template decides.
  std::string reduction = {};
  std::string source = std::string(Choice::kRule);
  /// The answer of the source in words, also where it was unsure. Empty where none was asked.
  std::string why = {};
};

/// The question to the heuristic about a graph.
struct GraphQuestion {
  int stage = -1;
  NamedFeatures features;
  Choice rule;  ///< a knob for each form; all are 0 where the estimates choose something else
};

/// The question about `dag`. It has no stage where no rule rewrites the graph. `all` are its
/// alternatives_of, of which the rule chooses `by_rule`.
GraphQuestion graph_question(const ComputeDag& dag, const Target& target,
                             const std::vector<Alternative>& all, const std::string& by_rule);

/// Chooses the graph. `target` is as the options limit it. With a null `source` the rule decides.
GraphChoice choose_graph(const ComputeDag& dag, const Target& target,
                         const AutoSchedulerOptions& options, const ChoiceSource* source);

/// The choice by the installed source, as make_static_template makes it.
GraphChoice choose_graph(const ComputeDag& dag, const Target& target,
                         const AutoSchedulerOptions& options);

/// The source for the template of the chosen graph: it answers as `source`, except about the
/// reduction where the choice determines it.
std::shared_ptr<const ChoiceSource> with_reduction(std::shared_ptr<const ChoiceSource> source,
                                                   const GraphChoice& choice);

/// As make_static_template, but `source` answers in place of the installed one (null: the rules
/// alone). It is not cached.
Template make_static_template_with(const ComputeDag& dag, const Target& target,
                                   const AutoSchedulerOptions& options,
                                   std::shared_ptr<const ChoiceSource> source);

}  // namespace heddle
