// The decisions that a template leaves open: knobs, and the configs that answer them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heddle/support/json.h"

namespace heddle {

/// One decision: a name, the values it may take, and the analytic rule's choice with its reason. A
/// knob of kinds has a label for each value ("whole", "k_blocked", "split_k"); any other is a
/// number.
struct Knob {
  std::string name;
  std::vector<int64_t> values;  ///< ascending
  int64_t default_value = 0;
  std::string reason;
  std::string meta_template;  ///< who asked for the decision
  /// Of a knob of kinds: value v is called labels[v]. Labels whose value is not among `values` are
  /// not offered here. Empty for a number.
  std::vector<std::string> labels = {};
  /// What the knob was called before, oldest first; configs in records may use these names.
  std::vector<std::string> aliases = {};
  std::string source = "rule";  ///< who chose the default (Choice::source)

  bool is_kind() const { return !labels.empty(); }
  /// The label of `value`, or the number itself: what tables and messages show.
  std::string text_of(int64_t value) const;
  /// The same for JSON: a string for a kind, else an integer.
  Json json_of(int64_t value) const;
  /// The value that `json` names: an integer, or a label of a knob of kinds. Empty for a label that
  /// the knob does not have. Throws an Error where `json` is of another type.
  std::optional<int64_t> value_of(const Json& json) const;
  /// The value that `text` names, a label or an integer; empty where it is neither.
  std::optional<int64_t> parse(const std::string& text) const;
  /// The values by their texts, separated by `separator`.
  std::string values_text(const std::string& separator = ", ") const;
  /// The first name that the knob had. Versions of templates are made of it, so that a new name
  /// leaves the records of the old one in force.
  const std::string& first_name() const { return aliases.empty() ? name : aliases.front(); }
  bool is_called(const std::string& some_name) const;
};

/// A value for every knob of a template, by position.
struct Config {
  std::vector<int64_t> values;
  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace heddle
