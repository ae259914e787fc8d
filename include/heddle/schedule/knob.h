// Knobs, the open decisions of a template, and configs, which give each knob a value.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heddle/support/json.h"

namespace heddle {

/// One decision: a name, the values it may take, and the analytic rule's choice with its reason. A
/// knob of kinds has a label for each value ("whole", "k_blocked", "split_k"). Other knobs are
/// numbers.
struct Knob {
  std::string name;
  std::vector<int64_t> values;  ///< ascending
  int64_t default_value = 0;
  std::string reason;
  std::string meta_template;  ///< the meta-template that declared the knob
  /// For a knob of kinds, labels[v] is the name of value v. Labels whose value is not in `values`
  /// are not allowed here. Empty for a number.
  std::vector<std::string> labels = {};
  /// Former names of the knob, oldest first. Configs in records may use them.
  std::vector<std::string> aliases = {};
  std::string source = "rule";  ///< the source of the default (Choice::source)

  bool is_kind() const { return !labels.empty(); }
  /// The label of `value`, or the number itself, for tables and messages.
  std::string text_of(int64_t value) const;
  /// The same for JSON: a string for a kind, else an integer.
  Json json_of(int64_t value) const;
  /// The value of `json`, which is an integer or a label of a knob of kinds. nullopt for an unknown
  /// label. Throws an Error where `json` has another type.
  std::optional<int64_t> value_of(const Json& json) const;
  /// The value of `text`, which is a label or an integer; nullopt where it is neither.
  std::optional<int64_t> parse(const std::string& text) const;
  /// The values by their texts, separated by `separator`.
  std::string values_text(const std::string& separator = ", ") const;
  /// The first name of the knob. Versions of templates depend on it, so that records remain valid
  /// when a knob is renamed.
  const std::string& first_name() const { return aliases.empty() ? name : aliases.front(); }
  bool is_called(const std::string& some_name) const;
};

/// A value for every knob of a template, by position.
struct Config {
  std::vector<int64_t> values;
  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace heddle
