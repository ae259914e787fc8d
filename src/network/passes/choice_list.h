// The choices about single places of a network, as passes and the cut into nodes meet them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/network/passes.h"

namespace heddle::network {

/// What a choice is about. The first ones are those of the passes of these names.
enum class ChoiceKind : uint8_t {
  JoinProducts,
  TransposeWeights,
  ChannelsLast,
  Precision,  ///< the numbers of which a product is made: its setting is a type
  Store,      ///< a stage that is usually computed where it is read is stored
  Fuse,       ///< one that usually is a node of its own is computed in the nodes that read it
  Recompute,  ///< the result of a node is computed again for later readers
};
/// "store": what names of choices begin with.
const char* to_string(ChoiceKind kind);
/// That of a name, "store@mul:1x56x56x96", or of its first part alone; none where it is no choice.
std::optional<ChoiceKind> kind_of(std::string_view name);
/// "store@mul:1x56x56x96": the name of the choice about a place.
std::string name_of(ChoiceKind kind, const std::string& place);
constexpr bool is_of_pass(ChoiceKind kind) { return kind <= ChoiceKind::Precision; }
/// Whether it is one of the cut into nodes.
constexpr bool is_of_cut(ChoiceKind kind) {
  return kind == ChoiceKind::Store || kind == ChoiceKind::Fuse;
}
/// Whether no size of a call is in its name: weights have the same extents at all sizes.
constexpr bool is_size_free(ChoiceKind kind) {
  return kind == ChoiceKind::TransposeWeights || kind == ChoiceKind::JoinProducts;
}

/// Whether it decides which products there are.
constexpr bool is_of_joins(ChoiceKind kind) { return kind == ChoiceKind::JoinProducts; }

/// The name of all choices of the kind and operator of `name`: "store@mul:*", "channels_last@*".
std::string all_like(const std::string& name);

/// The entry of a choice, or of all like it, in settings by name; the end where there is none.
template <class T>
auto setting_in(const std::map<std::string, T>& settings, const std::string& name) {
  const auto found = settings.find(name);
  return found != settings.end() ? found : settings.find(all_like(name));
}

/// The types of products that are of no f32, by stage. A graph has the same stages at all sizes.
using StageTypes = std::map<int, OperandType>;

/// Answers for the settings of choices, and lists those that were asked for.
class ChoiceList {
 public:
  explicit ChoiceList(const PassOptions& options)
      : memory_(options.memory), settings_(options.choices) {
    if (options.precision) types_ = options.types;
  }

  /// Answers, by name, that replace the usual ones from now on.
  void expect(std::map<std::string, bool> answers) { expected_ = std::move(answers); }

  /// The setting of the choice `kind`@`place`: that of the options where they name it, or all like
  /// it, else the expected one, else `usual`. The choice is listed, with one more place. `text` says what is so when it is
  /// on.
  bool on(ChoiceKind kind, const std::string& place, bool usual, const std::string& text);

  /// The same of what is so unless the options say otherwise: it is not exact, so nothing is expected.
  bool required(ChoiceKind kind, const std::string& place, const std::string& text);

  /// PassOptions::memory, of the options.
  int64_t memory() const { return memory_; }

  /// Types in place of those by name: products have other names at other sizes.
  void expect_types(StageTypes types) { expected_types_ = std::move(types); }
  const StageTypes& expected_types() const { return expected_types_; }

  /// The numbers of the product at `place`, which is the stage `stage`: those that are expected, else
  /// by name or those of all like it; f32 where the options name neither. The choice is listed where
  /// they are others.
  OperandType type_of(const std::string& place, int stage);

  /// The answers of type_of() that are not f32.
  const StageTypes& types() const { return found_types_; }

  /// What the options say of the choice, or of all like it.
  std::optional<bool> setting(ChoiceKind kind, const std::string& place) const;

  /// Whether the options turn on a choice of this kind.
  bool any_on(ChoiceKind kind) const;

  const std::vector<NetworkChoice>& list() const { return list_; }

  /// The names in the options that were not asked for.
  std::vector<std::string> unknown() const;
  /// Throws a User error where there are any.
  void require_all_known() const;

 private:
  int64_t memory_ = 0;
  std::map<std::string, bool> settings_, expected_;
  std::map<std::string, OperandType> types_;
  StageTypes expected_types_, found_types_;
  /// What was asked for, and the names of all like these.
  std::vector<std::string> known() const;

  std::vector<std::string> products_;  ///< the names of the products
  std::vector<NetworkChoice> list_;
};

/// "56x56": extents as part of the name of a place.
std::string by_extents(const std::vector<int64_t>& extents);

/// "mul:1x56x56x96": a stage as the name of a place, by the operator that declared it and its
/// shape.
std::string place_of(const Operation& op);

}  // namespace heddle::network
