// The trees that answer in place of rules: tophub's, then compiled-in ones.
//
// When a process starts, tree_choices() is installed as its ChoiceSource
// (heddle/schedule/choice.h). For a heuristic and a target it looks for
// <kind>-<chip>.<heuristic>.tree in the folders of tophub (heddle/records/tophub.h), then among the
// tables that were registered. HEDDLE_TOPHUB=off turns the shipped ones off, and HEDDLE_HEURISTICS
// single heuristics (-reduction,-location) or all but some (contraction). A tree of another
// version of its heuristic is not used, and logged (HEDDLE_LOG=heuristics).
//
// A sum of trees answers with the choice of least predicted time that is legal for the problem. Where
// it is unsure, or predicts that none gains over the rule, the rule decides.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/heuristics/heuristic.h"
#include "heddle/heuristics/trained_tree.h"
#include "heddle/schedule/choice.h"

namespace heddle {

/// A tree, ready to answer for its heuristic.
class LearnedChoice {
 public:
  /// Throws a User error for a tree of another heuristic or version, or with features or choices
  /// that the heuristic does not have. `name` identifies the tree in explanations.
  LearnedChoice(const Heuristic& heuristic, TrainedTree tree, std::string name);
  /// The same with a compiled-in table, which must outlive this object.
  /// `kinds` are those of TreeHolder::kinds().
  LearnedChoice(const Heuristic& heuristic, const TreeTable& table, std::string name,
                std::span<const double> kinds = {});

  struct Answer {
    /// The best legal choice. Nullopt means the fallback.
    std::optional<ParameterSet> choice = {};
    bool unsure = false;   ///< if false, the fallback is as good as any choice
    std::string why = {};  ///< the reason, one line
  };
  Answer answer(const Situation& problem) const;
  /// The answer for a choice that a program makes itself, which has features and no rule.
  Answer answer(const NamedFeatures& features) const;
  /// The four legal choices of least predicted time, best first; nullopt stands for the fallback.
  /// Those of far more than its time are left out. The region may be unsure. Empty where the problem
  /// is unlike those of training.
  std::vector<std::optional<ParameterSet>> ranked(const Situation& problem) const;
  /// The region, its bounds and the predictions in words, in several lines.
  std::string explain(const NamedFeatures& features) const;

  const Heuristic& heuristic() const { return heuristic_; }
  const std::string& name() const { return name_; }
  const TreeTable& table() const { return *table_; }
  /// The machine of the measurements, as far as the tree says it.
  const std::optional<Target>& measured_on() const { return measured_on_; }

 private:
  struct Predicted {
    std::int32_t choice;
    float loss;
  };
  void prepare();
  /// The rule and all choices but the fallback, the least predicted time first.
  std::vector<Predicted> predicted(std::span<const double> values) const;
  std::vector<double> features_of(const NamedFeatures& features) const;
  /// In words, why no problem of training was like one that the regions answer; empty where one was.
  std::string why_unlike(std::span<const double> values) const;

  Heuristic heuristic_;
  std::shared_ptr<const TreeHolder> holder_;  ///< null for a compiled-in table
  const TreeTable* table_;
  std::span<const double> kinds_;  ///< of problems that are answered; of the holder or compiled in
  std::string name_;
  std::vector<std::size_t> order_;     ///< of each feature of the tree, its index in the heuristic
  std::vector<ParameterSet> choices_;  ///< of the tree
  std::optional<Target> measured_on_;
};

/// Adds a compiled-in table for a kind of target and a chip. The table must exist as long as the
/// process uses it, and the kinds of problems that it answers (TreeHolder::kinds) too.
bool register_tree_table(const std::string& kind, const std::string& chip, const TreeTable& table,
                         std::span<const double> kinds = {});
/// Removes such a table, for tests.
void unregister_tree_table(const TreeTable& table);

/// The tree for a heuristic and a target; null where there is none that can be used.
std::shared_ptr<const LearnedChoice> find_tree(const Heuristic& heuristic, const Target& target);

/// The source that answers with these trees.
std::shared_ptr<const ChoiceSource> tree_choices();

/// The source that answers with the choice whose rank among the legal ones is `rank` (0: the best),
/// for searches that begin with the best few. It has no answer where there are fewer, or where the
/// choice is the rule's.
std::shared_ptr<const ChoiceSource> ranked_tree_choices(int rank);

}  // namespace heddle
