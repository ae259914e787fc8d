// Alternatives: other graphs that compute the same outputs (Winograd, split-K, ...), as data.
//
//   ComputeDag dag({y});
//   for (const Alternative& a : alternatives_of(dag, target, {}))
//     if (a.legal()) std::cout << a.name << "\n";                  // winograd(tile=4)@3
//   ComputeDag rewritten = apply_alternative(dag, "winograd(tile=4)@3");
//   build(create_schedule(...), {x, w, y});                        // with the user's own tensors
//
// Most rules rewrite one stage: they offer tensors that take the place of the stage's. The graph
// around them is rebuilt, so that producers and epilogue are fused with them as usual. Others
// rewrite the whole graph. Inputs and outputs may come with other dimensions, but lie in memory as
// they did, and outputs keep their order: a schedule of the rewritten graph is built and called
// with the arguments of the declaration as it was written (ComputeDag::own).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/target/target.h"

namespace heddle {

/// A parameter of a rule and the values that are offered.
struct RewriteParameter {
  std::string name;
  std::vector<int64_t> values;
};

/// Where a rule is applied, and how.
struct RewriteSite {
  const ComputeDag& dag;        ///< as declared
  int stage = -1;               ///< of `dag`
  std::vector<int64_t> values;  ///< one a parameter, in their order
  const Operation& op() const { return dag.stage(stage); }
};

/// What a rule expects of itself, before anything is measured.
struct RewriteEstimate {
  double speedup = 1;       ///< of the stage against the direct form on the target at hand; rough
  std::string reason = {};  ///< one clause for people
  std::string why_not =
      {};  ///< why it cannot pay on this target, whatever is measured: not offered
};

/// A whole graph, rewritten.
struct GraphRewrite {
  std::vector<Tensor> outputs;  ///< in the order of the graph's
  /// Each placeholder that another one, of as many elements of one type, stands for.
  std::vector<std::pair<Tensor, Tensor>> placeholders;
};

struct RewriteRule {
  std::string name;  ///< a word of a-z, 0-9 and _: it is in records
  std::vector<RewriteParameter> parameters = {};
  /// Why the stage cannot be rewritten so; empty when it can. A stage that the rule is not made for
  /// at all (an addition, for Winograd) starts with "not ".
  std::function<std::string(const RewriteSite&)> why_not = nullptr;
  /// A tensor for each output of the stage, of the same shapes and types. Called where legal.
  std::function<std::vector<Tensor>(const RewriteSite&)> apply = nullptr;
  /// How many times as large as the direct form's the rounding errors are to be expected: the
  /// growth of their root mean square for independent operands, of the worst element; 1: no larger.
  std::function<double(const RewriteSite&)> error_growth = nullptr;
  std::function<RewriteEstimate(const RewriteSite&, const Target&)> estimate = nullptr;
  /// In the place of `apply`: the graph of which the stage is the first that gains. Such a rule is
  /// joined with no other.
  std::function<GraphRewrite(const RewriteSite&)> rewrite = nullptr;
};
/// Registers for the life of the process; returns true. Two of one name, or a rule that lacks a
/// function, is an internal error.
bool register_rewrite_rule(RewriteRule rule);
/// For tests and plug-ins that come and go.
void unregister_rewrite_rule(const std::string& name);
std::vector<std::string> rewrite_rule_names();

#define HEDDLE_REGISTER_REWRITE_RULE(...) \
  HEDDLE_REGISTER_REWRITE_RULE_AS(        \
      HEDDLE_REWRITE_JOIN(heddle_registered_rewrite_rule_, __COUNTER__), __VA_ARGS__)
#define HEDDLE_REGISTER_REWRITE_RULE_AS(name, ...) \
  [[maybe_unused]] static const bool name = ::heddle::register_rewrite_rule(__VA_ARGS__)
#define HEDDLE_REWRITE_JOIN(a, b) HEDDLE_REWRITE_JOIN_EXPANDED(a, b)
#define HEDDLE_REWRITE_JOIN_EXPANDED(a, b) a##b

/// Which alternatives take part. `AutoSchedulerOptions` has the same two.
struct AlternativePolicy {
  bool use = true;
  /// None whose error_growth is above this. 1: nothing that rounds worse than the direct form.
  double max_error_growth = 16;
};

/// One rewrite of a graph that was considered.
struct Alternative {
  /// Rule, parameters and stage, "winograd(tile=4)@3"; several sites are joined with '+'. What
  /// records and schedules call it.
  std::string name;
  std::string why_not = {};  ///< of the rule, or of the policy; empty: it may be used
  double error_growth = 1;
  /// Of the whole graph, by operations: what estimate() says of the stages, weighted.
  double speedup = 1;
  std::string reason = {};
  bool legal() const { return why_not.empty(); }
};

/// Every rule with every combination of its parameters: on each stage that it is made for, and,
/// where there are several of them, on all that it may be used for together. In the order of rules'
/// names and parameters.
std::vector<Alternative> alternatives_of(const ComputeDag& dag, const Target& target,
                                         const AlternativePolicy& policy);

/// The legal one that promises most, if one promises something; else null, for the direct form.
const Alternative* most_promising(const std::vector<Alternative>& alternatives);
/// The name of the most promising of alternatives_of; empty for the direct form.
std::string choose_alternative(const ComputeDag& dag, const Target& target,
                               const AlternativePolicy& policy);

/// `dag` rewritten. Throws a User error that names what is wrong: a name that does not parse, an
/// unknown rule, parameter or stage, a rewrite that is not legal there. An empty name is `dag`.
ComputeDag apply_alternative(const ComputeDag& dag, const std::string& name);

/// How far the alternative's errors may grow over the direct form's (the largest of its sites; 1
/// for an empty name). Throws as apply_alternative does.
double alternative_error_growth(const ComputeDag& dag, const std::string& name);

}  // namespace heddle
