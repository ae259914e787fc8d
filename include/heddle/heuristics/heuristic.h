// Heuristic: a choice that can be learned, declared in one place.
//
// A heuristic declares the features that distinguish problems, the choices, which of them are legal
// for a problem, what to do where nothing was learned (the fallback), and how training problems are
// drawn. Collection, training, evaluation and use all read this one declaration.
//
//   Heuristic h;
//   h.name = "sorting";
//   h.features = {{"count"}, {"nearly_sorted", FeatureKind::Boolean}};
//   h.augmented = {{{"log_count"}, [](const FeatureView& f) { return std::log2(f["count"]); }}};
//   h.parameters = {{"algorithm", {"insertion", "merge"}}};
//   h.fallback = ParameterSet().set("algorithm", 1);
//   h.candidates = [](const Situation&) { ... };
//
// A choice is a set of typed parameters, in terms that hold for a problem of any shape: rows and
// vectors of a tile, not steps of a schedule. Its id is canonical JSON of names and values,
// {"algorithm":"merge"}. Logs and trees name choices by these ids only.
//
// A heuristic of a meta-template has the name by which the template asks (TemplateBuilder::decide).
// Its fallback is the empty set, the rule; `resolve` turns a set into values of the template's
// knobs.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/heuristics/dataset.h"
#include "heddle/schedule/choice.h"
#include "heddle/support/rng.h"
#include "heddle/target/target.h"

namespace heddle {

/// The features of a problem, by name. A view: the features outlive it.
class FeatureView {
 public:
  explicit FeatureView(const NamedFeatures& features) : features_(features) {}
  /// NaN for a feature that the problem does not have.
  double operator[](std::string_view name) const;
  bool is(std::string_view name) const { return (*this)[name] == 1; }
  const NamedFeatures& all() const { return features_; }

 private:
  const NamedFeatures& features_;
};

/// A feature that is computed from others. It is not logged as a fact of its own: collection,
/// training and use compute it by this function.
struct AugmentedFeature {
  HeuristicFeature feature;
  std::function<double(const FeatureView&)> value;
};

/// A parameter of a choice. The values of a kind have labels: labels[v] is the name of value v in
/// ids. Values that are texts are names of things that may be registered anywhere, such as rules.
struct ChoiceParameter {
  std::string name;
  std::vector<std::string> labels = {};
  bool is_text = false;  ///< values are texts; no labels
};

/// Values for some parameters, by name. The empty set leaves everything to the fallback.
class ParameterSet {
 public:
  using Value = std::variant<std::int64_t, std::string>;
  ParameterSet& set(std::string_view name, Value value);
  ParameterSet& set(std::string_view name, std::int64_t value) { return set(name, Value(value)); }
  bool has(std::string_view name) const { return find(name) != nullptr; }
  /// The number of the parameter, or `otherwise` where the set does not have it.
  std::int64_t get(std::string_view name, std::int64_t otherwise) const;
  /// The text of the parameter, empty where the set does not have it.
  std::string text(std::string_view name) const;
  /// The parameters and their values, in the order of names.
  const std::vector<std::pair<std::string, Value>>& values() const { return values_; }
  bool operator==(const ParameterSet&) const = default;

 private:
  const Value* find(std::string_view name) const;
  std::vector<std::pair<std::string, Value>> values_;
};

/// A problem as a heuristic sees it.
struct Situation {
  FeatureView features;
  const Choice& rule;  ///< for a meta-template: the choice of its rule; else empty
};

/// A problem to measure. A problem of a meta-template is a declaration. Any other problem is
/// described by its features.
struct DrawnProblem {
  std::string id;  ///< readable, equal for equal problems: "matmul:512x512x512"
  std::vector<Tensor> outputs = {};
  NamedFeatures features = {};
};

/// A choice that can be learned: its features, parameters and candidates (docs/guide/heuristics.md).
struct Heuristic {
  std::string name;  ///< consists of a-z, 0-9 and _; files and templates use it
  /// Trees and logs of another version are refused. Raise it when the meaning of a feature or of a
  /// parameter changes.
  int version = 1;
  std::string about = {};
  std::string target_kind = {};  ///< "llvm" or "cuda"; empty: any kind

  std::vector<HeuristicFeature> features = {};
  std::vector<AugmentedFeature> augmented = {};
  /// What a choice may set. Empty: knobs of the meta-template, by the names of its rule.
  std::vector<ChoiceParameter> parameters = {};
  ParameterSet fallback = {};

  /// Whether the heuristic applies to the problem. Where it does not, the fallback is used. Empty:
  /// it always applies.
  std::function<bool(const Situation&)> precondition = {};
  /// The portfolio: the choices that are worth trying, without the fallback. It should offer the
  /// same sets for many problems, because a tree learns nothing about a set that few problems have.
  /// Empty: one move of a knob away from the rule's choice, among the values that the template
  /// offers (build_choices).
  std::function<std::vector<ParameterSet>(const Situation&)> candidates = {};
  /// Why a set cannot be used for the problem; empty text where it can. Without a function the
  /// template decides: where it refuses a choice, its rule chooses.
  std::function<std::string(const ParameterSet&, const Situation&)> why_invalid = {};
  /// The values of knobs that a set stands for, for heuristics of a meta-template with parameters
  /// of their own.
  std::function<Choice(const ParameterSet&, const Situation&)> resolve = {};
  /// Choices are graphs (schedule/templates/graph_choice.h): the template of a problem is that of the graph
  /// that the static choice takes. Otherwise rewrites are turned off while choices are measured.
  bool of_graphs = false;
  /// Draws a problem. Equal states of `rng` draw equal problems.
  std::function<DrawnProblem(Rng& rng, const Target& target)> draw = {};
  /// Runs a choice once and returns the seconds. Empty: problems are declarations, which are built
  /// with the choice and raced.
  std::function<double(const DrawnProblem&, const ParameterSet&)> measure = {};

  /// The declared features and the augmented ones, in the order of logs and trees.
  std::vector<HeuristicFeature> all_features() const;
  /// Their values for a problem, in that order. NaN where a value is not known.
  std::vector<double> values_of(const NamedFeatures& features) const;
  /// Why the set cannot be used for the problem; empty where it can.
  std::string why_not(const ParameterSet& choice, const Situation& problem) const;
  bool applies(const Situation& problem) const { return !precondition || precondition(problem); }

  /// Whether choices become knobs of a meta-template.
  bool of_template() const { return resolve || parameters.empty(); }
  /// The values of knobs that a set stands for: by `resolve`, or the set itself.
  Choice knobs_of(const ParameterSet& choice, const Situation& problem) const;

  std::string id_of(const ParameterSet& choice) const;
  /// The choice of an id. Throws a User error for an id that is not one of this heuristic, such as
  /// one with an unknown parameter.
  ParameterSet choice_of(std::string_view id) const;
};

/// Registers the heuristic for the life of the process and returns true. Two heuristics of one
/// name, or a name that is not a word, are an internal error.
bool register_heuristic(Heuristic heuristic);
/// Removes a heuristic, for tests and for plug-ins that are unloaded.
void unregister_heuristic(const std::string& name);
/// The heuristic of this name, or null. The pointer is valid until the heuristic is unregistered.
const Heuristic* find_heuristic(std::string_view name);
/// The heuristic of this name. Throws a User error with a hint for an unknown name.
const Heuristic& heuristic_of(const std::string& name);
/// All registered heuristics, in the order of names.
std::vector<const Heuristic*> all_heuristics();

#define HEDDLE_REGISTER_HEURISTIC(...)                                                           \
  HEDDLE_REGISTER_HEURISTIC_AS(HEDDLE_HEURISTIC_JOIN(heddle_registered_heuristic_, __COUNTER__), \
                               __VA_ARGS__)
#define HEDDLE_REGISTER_HEURISTIC_AS(name, ...) \
  [[maybe_unused]] static const bool name = ::heddle::register_heuristic(__VA_ARGS__)
#define HEDDLE_HEURISTIC_JOIN(a, b) HEDDLE_HEURISTIC_JOIN_EXPANDED(a, b)
#define HEDDLE_HEURISTIC_JOIN_EXPANDED(a, b) a##b

}  // namespace heddle
