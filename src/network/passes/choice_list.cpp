#include "network/passes/choice_list.h"

#include <algorithm>
#include <array>

#include "heddle/support/error.h"
#include "support/edit_distance.h"

namespace heddle::network {

namespace {

// In the order of ChoiceKind.
constexpr std::array<const char*, 7> kKinds = {
    "join_products", "transpose_weights", "channels_last", "precision", "store",
    "fuse",          "recompute"};

}  // namespace

std::string name_of(ChoiceKind kind, const std::string& place) {
  return std::string(to_string(kind)) + "@" + place;
}

const char* to_string(ChoiceKind kind) { return kKinds[static_cast<size_t>(kind)]; }

std::optional<ChoiceKind> kind_of(std::string_view name) {
  const auto* found = std::ranges::find(kKinds, name.substr(0, name.find('@')));
  if (found == kKinds.end()) return std::nullopt;
  return static_cast<ChoiceKind>(found - kKinds.begin());
}

std::string all_like(const std::string& name) {
  const size_t shape = name.find(':');
  return name.substr(0, (shape == std::string::npos ? name.find('@') : shape) + 1) + "*";
}

bool ChoiceList::on(ChoiceKind kind, const std::string& place, bool usual,
                    const std::string& text) {
  const std::string name = name_of(kind, place);
  const auto expected = expected_.find(name);
  if (expected != expected_.end()) usual = expected->second;
  const bool on = setting(kind, place).value_or(usual);
  const auto known = std::find_if(list_.begin(), list_.end(),
                                  [&](const NetworkChoice& c) { return c.name == name; });
  if (known == list_.end()) {
    list_.push_back({name, text, 1, usual, on});
  } else {
    ++known->places;
  }
  return on;
}

bool ChoiceList::required(ChoiceKind kind, const std::string& place, const std::string& text) {
  const std::string name = name_of(kind, place);
  expected_.erase(name);
  const bool is_on = on(kind, place, true, text);
  std::ranges::find(list_, name, &NetworkChoice::name)->exact = false;
  return is_on;
}

std::optional<bool> ChoiceList::setting(ChoiceKind kind, const std::string& place) const {
  const auto found = setting_in(settings_, name_of(kind, place));
  if (found == settings_.end()) return std::nullopt;
  return found->second;
}

OperandType ChoiceList::type_of(const std::string& place, int stage) {
  const std::string name = name_of(ChoiceKind::Precision, place);
  products_.push_back(name);
  OperandType type;
  if (const auto expected = expected_types_.find(stage); expected != expected_types_.end()) {
    type = expected->second;
  } else if (const auto found = setting_in(types_, name); found != types_.end()) {
    type = found->second;
  }
  if (type.is_declared()) return {};
  found_types_[stage] = type;
  list_.push_back({.name = name,
                   .text = "its operands are " + to_string(type),
                   .places = 1,
                   .on = true,
                   .exact = false});
  return type;
}

bool ChoiceList::any_on(ChoiceKind kind) const {
  return std::any_of(settings_.begin(), settings_.end(),
                     [&](const auto& c) { return c.second && kind_of(c.first) == kind; });
}

std::vector<std::string> ChoiceList::known() const {
  std::vector<std::string> known;
  for (const NetworkChoice& c : list_) known.insert(known.end(), {c.name, all_like(c.name)});
  for (const std::string& name : products_) known.insert(known.end(), {name, all_like(name)});
  return known;
}

std::vector<std::string> ChoiceList::unknown() const {
  const std::vector<std::string> known = this->known();
  std::vector<std::string> named;
  for (const auto& [name, on] : settings_) named.push_back(name);
  for (const auto& [name, type] : types_) named.push_back(name);
  std::erase_if(named, [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  });
  return named;
}

void ChoiceList::require_all_known() const {
  const std::vector<std::string> unknown = this->unknown();
  if (unknown.empty()) return;
  std::string hint = did_you_mean(unknown[0], known());
  if (!hint.empty()) hint += " ";
  throw_user_error("this network has no choice '" + unknown[0] + "'", {},
                   hint +
                       "`heddle explain MODEL.onnx` lists its choices; their names change "
                       "with the sizes of the inputs and with other passes");
}

std::string by_extents(const std::vector<int64_t>& extents) {
  std::string text;
  for (const int64_t e : extents) text += (text.empty() ? "" : "x") + std::to_string(e);
  return text.empty() ? "scalar" : text;
}

std::string place_of(const Operation& op) {
  std::string name = op.tag().empty() ? op.name() : op.tag();
  // The characters that separate the parts of a list of passes.
  for (char& c : name) {
    if (c == ',' || c == '@' || c == ':') c = '_';
  }
  return name + ":" + by_extents(op.output(0).extents());
}

}  // namespace heddle::network
