// The interface between the recipe of a meta-template and the source of the numbers in it.
//
// A meta-template has three parts. The *problem* is a small struct with named facts of the shapes
// and of the machine. The *rule* is a plain function from a problem to a Choice: a default and a
// reason for each knob. The *recipe* writes the loops and asks for knobs, whose defaults come from
// the Choice:
//
//   struct TileProblem {
//     int64_t rows = 1, registers = 16;
//     NamedFeatures features() const {
//       return {{"rows", 1. * rows}, {"registers", 1. * registers}};
//     }
//   };
//   Choice tile_rule(const TileProblem& p) {
//     return Choice().set("tile_rows", std::min<int64_t>(p.rows, 6), "fits the registers");
//   }
//   ...
//   const Choice choice = t.decide("tile", TileProblem{rows, registers}, tile_rule);
//   Param tile_rows = t.knob("tile_rows", {1, 2, 4, 6}, choice);
//
// A ChoiceSource, such as a learned tree, may answer in place of a rule. Where it has no answer,
// and for each knob that it does not name, the rule's choice stands. A rule that takes a second
// argument, `const Choice& given`, is called again with the answer, so that what it chooses goes
// with that: blocks with the tile that was given.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/target/target.h"

namespace heddle {

class ComputeDag;
struct RuleConstants;

/// One named fact of a problem or a machine. A boolean is 0 or 1. The name must outlive the
/// feature; it is a literal.
struct NamedFeature {
  std::string_view name;
  double value = 0;
};

/// The facts that one heuristic sees. Their names and their order are the same for every problem of
/// that heuristic.
using NamedFeatures = std::vector<NamedFeature>;

/// The values of the knobs of one heuristic, each with a reason, and their source.
class Choice {
 public:
  static constexpr std::string_view kRule = "rule";

  /// `source` names the origin of the choice, such as "tree NAME".
  explicit Choice(std::string source = std::string(kRule)) : source_(std::move(source)) {}

  /// Chooses `value` for `knob`. The last call for a knob counts.
  Choice& set(std::string_view knob, int64_t value, std::string reason = "");
  /// The same for a knob of kinds: labels[v] is the name of value v. The labels must outlive the
  /// choice; they are literals.
  Choice& set_kind(std::string_view knob, std::vector<std::string_view> labels, int64_t value,
                   std::string reason = "");

  bool has(std::string_view knob) const;
  /// The value chosen for `knob`, the reason, and the source. Throws an internal error where
  /// has(knob) is false.
  int64_t value(std::string_view knob) const;
  const std::string& reason(std::string_view knob) const;
  const std::string& source(std::string_view knob) const;
  /// The names of the values of a knob that set_kind has set; empty for others.
  const std::vector<std::string_view>& labels(std::string_view knob) const;
  /// The value that is called `label`; nullopt where the choice has no such knob of kinds, or the
  /// knob no such label.
  std::optional<int64_t> value_of(std::string_view knob, std::string_view label) const;

  /// The origin of the choice, without overlays.
  const std::string& source() const { return source_; }
  /// The knobs in the order in which they were first set.
  std::vector<std::string> knobs() const;

  /// Replaces the values of the knobs that `answer` names too. Returns the knobs of `answer` that
  /// this choice does not have.
  std::vector<std::string> overlay(const Choice& answer);
  /// The choice without overlays.
  Choice before_overlay() const;

 private:
  struct Entry {
    std::string knob;
    int64_t value = 0;
    std::string reason, source;
    std::vector<std::string_view> labels = {};
  };
  const Entry& find(std::string_view knob) const;
  std::string source_;
  std::vector<Entry> entries_;
  std::vector<Entry> replaced_;  ///< entries before they were replaced by overlay
};

/// The question to a ChoiceSource: the choice of `heuristic` for a problem with these features.
struct ChoiceQuestion {
  std::string_view heuristic;
  const NamedFeatures& features;
  const Target& target;
  const Choice& rule;  ///< the choice where there is no answer
  /// The graph that the question is about; for questions of graphs, as declared. Null: not known.
  const ComputeDag* dag = nullptr;
};

/// An answer. Without a choice the source is unsure, and the rule decides. A choice may name only
/// some of the rule's knobs.
struct ChoiceAnswer {
  std::optional<Choice> choice = {};
  std::string why = {};  ///< for `explain`: the reason for the choice, or why the source is unsure
};

/// Answers in place of rules. Safe to call from several threads.
class ChoiceSource {
 public:
  virtual ~ChoiceSource() = default;
  /// A text that differs between sources whose answers may differ. It is part of the key of cached
  /// templates.
  virtual std::string version() const = 0;
  virtual ChoiceAnswer choose(const ChoiceQuestion& question) const = 0;
  /// The constants with which rules judge a target (heddle/target/rule_constants.h); null: the
  /// defaults. Sources with other constants have other versions.
  virtual std::shared_ptr<const RuleConstants> constants(const Target&) const { return nullptr; }
};

/// Installs the source that make_template consults from now on; nullptr: none. Returns the previous
/// one. A process starts with the shipped trees (heuristics/tree_choices.h).
std::shared_ptr<const ChoiceSource> install_choice_source(
    std::shared_ptr<const ChoiceSource> source);
/// The source of this process; null where none is installed.
std::shared_ptr<const ChoiceSource> installed_choice_source();

}  // namespace heddle
