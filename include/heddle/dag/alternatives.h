// Alternatives: other graphs that compute the same outputs (Winograd, split-K, ...), as data.
//
//   ComputeDag dag({y});
//   for (const Alternative& a : alternatives_of(dag, target, {}))
//     if (a.legal()) std::cout << a.name << "\n";                  // winograd(tile=4)@3
//   ComputeDag rewritten = apply_alternative(dag, "winograd(tile=4)@3");
//   build(create_schedule(rewritten.outputs()), {x, w, y});       // with the user's own tensors
//
// Most rules rewrite one stage: they offer tensors that replace those of the stage. The graph
// around them is rebuilt, so that producers and epilogue are fused with them as usual. Other rules
// rewrite the whole graph. Inputs and outputs may get other dimensions, but their elements keep
// their places in memory, and outputs keep their order. A schedule of the rewritten graph is built
// and called with the arguments of the original declaration (ComputeDag::counterpart).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/dag/why_not.h"
#include "heddle/target/target.h"

namespace heddle {

struct RuleConstants;

/// The relation of the results of another graph to those of the declaration.
enum class Numerics : uint8_t {
  Exact,         ///< the same terms, added in an order that schedules may take too
  Reassociated,  ///< equal but for rounding: other partial results, with error growth that is known
  Approximate,   ///< not equal even without rounding, or with errors beyond the tolerance of checks
};
/// The name of a class: "exact", "reassociated" or "approximate".
const char* to_string(Numerics n);

/// A parameter of a rule and its possible values.
struct RewriteParameter {
  std::string name;
  std::vector<int64_t> values = {};  ///< empty: every number that the rule's `why_not` accepts
};

/// Where a rule is applied, and how.
struct RewriteSite {
  const ComputeDag& dag;        ///< as declared
  int stage = -1;               ///< of `dag`
  std::vector<int64_t> values;  ///< one for each parameter, in their order
  /// The constants of estimates (heddle/target/rule_constants.h); null: the defaults.
  const RuleConstants* constants = nullptr;
  const Operation& op() const { return dag.stage(stage); }
};

/// The gain that a rule expects, before anything is measured.
struct RewriteEstimate {
  double speedup = 1;  ///< rough estimate for the stage on this target, against the direct form
  std::string reason = {};   ///< the reason, as one clause of text
  std::string why_not = {};  ///< why the rewrite cannot be faster on this target and is not offered
};

/// A rewritten graph.
struct GraphRewrite {
  std::vector<Tensor> outputs;  ///< in the order of the graph's
  /// Pairs of a placeholder of the original graph and the one that replaces it, which has the same
  /// type and number of elements.
  std::vector<std::pair<Tensor, Tensor>> placeholders;
};

/// A rule that replaces one stage of a graph by other tensors with the same values.
struct RewriteRule {
  std::string name;  ///< a word of a-z, 0-9 and _; it is written to records
  std::vector<RewriteParameter> parameters = {};
  /// Why the stage cannot be rewritten like this; empty where it can. For a kind of stage that the
  /// rule is not made for it is WhyNot::other_kind.
  std::function<WhyNot(const RewriteSite&)> why_not = nullptr;
  /// Returns a tensor for each output of the stage, of the same shape and type. Called only where
  /// the rewrite is legal.
  std::function<std::vector<Tensor>(const RewriteSite&)> apply = nullptr;
  /// The expected factor by which rounding errors exceed those of the direct form: the growth of
  /// their root mean square for independent operands, at the worst element. 1: no larger.
  std::function<double(const RewriteSite&)> error_growth = nullptr;
  std::function<RewriteEstimate(const RewriteSite&, const Target&)> estimate = nullptr;
  /// Combinations of values that suit a stage and a machine, for rules of parameters without lists
  /// of values. `site.values` is empty.
  std::function<std::vector<std::vector<int64_t>>(const RewriteSite& site, const Target&)> suited =
      nullptr;
  /// The class of the rule. A reassociated rewrite counts as exact where all results of the stage
  /// are integers, whose sums wrap, and as approximate where its error growth is above
  /// kReassociatedGrowth.
  Numerics numerics = Numerics::Reassociated;
  /// Used in place of `apply` by rules that rewrite the whole graph. The stage is the first one
  /// that gains. Such a rule is not combined with others.
  std::function<GraphRewrite(const RewriteSite&)> rewrite = nullptr;
};
/// Registers the rule for the life of the process and returns true. Two rules of one name, or a
/// rule that lacks a function, are an internal error.
bool register_rewrite_rule(RewriteRule rule);
/// Removes a rule, for tests and for plug-ins that are unloaded.
void unregister_rewrite_rule(const std::string& name);
/// The names of all registered rules.
std::vector<std::string> rewrite_rule_names();

#define HEDDLE_REGISTER_REWRITE_RULE(...) \
  HEDDLE_REGISTER_REWRITE_RULE_AS(        \
      HEDDLE_REWRITE_JOIN(heddle_registered_rewrite_rule_, __COUNTER__), __VA_ARGS__)
#define HEDDLE_REGISTER_REWRITE_RULE_AS(name, ...) \
  [[maybe_unused]] static const bool name = ::heddle::register_rewrite_rule(__VA_ARGS__)
#define HEDDLE_REWRITE_JOIN(a, b) HEDDLE_REWRITE_JOIN_EXPANDED(a, b)
#define HEDDLE_REWRITE_JOIN_EXPANDED(a, b) a##b

/// The largest error growth that the tolerance of checks (driver/tolerance.h) leaves room for.
constexpr double kReassociatedGrowth = 16;

/// Which alternatives are considered. `AutoSchedulerOptions` has the first members.
struct AlternativePolicy {
  bool use = true;
  /// Alternatives whose error_growth is larger are excluded. 1: none that rounds worse than the
  /// direct form.
  double max_error_growth = kReassociatedGrowth;
  bool allow_approximate = false;  ///< also those of class Numerics::Approximate
  /// The constants by which estimates judge; null: the defaults. Not among the options.
  std::shared_ptr<const RuleConstants> constants = nullptr;
};
/// Why the policy excludes alternatives of these numerics; empty where it does not.
std::string why_excluded(const AlternativePolicy& policy, Numerics numerics, double error_growth);

/// One rewrite of a graph that was considered.
struct Alternative {
  /// Rule, parameters and stage, "winograd(tile=4)@3"; several sites are joined with '+'. Records
  /// and schedules use this name.
  std::string name;
  std::string why_not = {};  ///< reason of the rule or of the policy; empty: it may be used
  double error_growth = 1;
  Numerics numerics = Numerics::Exact;
  /// Estimate for the whole graph: that of each stage, weighted by its operations.
  double speedup = 1;
  std::string reason = {};
  bool legal() const { return why_not.empty(); }
};

/// Every rule with every combination of its parameters, on each stage that it is made for. Where
/// there are several such stages, also on all of them together. Ordered by rule names and
/// parameters.
std::vector<Alternative> alternatives_of(const ComputeDag& dag, const Target& target,
                                         const AlternativePolicy& policy);

/// The legal alternative of largest expected speed-up, or null where none is expected to be faster
/// than the direct form.
const Alternative* most_promising(const std::vector<Alternative>& alternatives);
/// The name of the most promising alternative of alternatives_of; empty for the direct form.
std::string choose_alternative(const ComputeDag& dag, const Target& target,
                               const AlternativePolicy& policy);

/// `dag` rewritten. Throws a User error that names what is wrong: a name that does not parse, an
/// unknown rule, parameter or stage, a rewrite that is not legal there. An empty name is `dag`.
/// Over one dimension (dsl/dim.h) the result is over that dimension; a User error where the graphs
/// rewritten at two sizes differ in more than numbers that grow with the size, and for several
/// dimensions.
ComputeDag apply_alternative(const ComputeDag& dag, const std::string& name);

/// The error growth of the alternative over the direct form: the largest of its sites, 1 for an
/// empty name. Throws as apply_alternative does.
double alternative_error_growth(const ComputeDag& dag, const std::string& name);
/// The class of the alternative: the loosest of its sites, Exact for an empty name. Throws as
/// apply_alternative does.
Numerics alternative_numerics(const ComputeDag& dag, const std::string& name);

}  // namespace heddle
