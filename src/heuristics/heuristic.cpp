#include "heddle/heuristics/heuristic.h"

#include <algorithm>
#include <limits>
#include <list>
#include <mutex>

#include "heddle/support/error.h"
#include "support/edit_distance.h"

namespace heddle {
namespace {

std::mutex& mutex() {
  static std::mutex m;
  return m;
}
std::list<Heuristic>& registry() {  // addresses stay valid
  static std::list<Heuristic> r;
  return r;
}

bool is_word(const std::string& name) {
  return !name.empty() && std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_';
  });
}

const ChoiceParameter* find_parameter(const Heuristic& h, std::string_view name) {
  for (const ChoiceParameter& p : h.parameters) {
    if (p.name == name) return &p;
  }
  return nullptr;
}

[[noreturn]] void refuse_id(const Heuristic& h, std::string_view id, const std::string& why) {
  throw_user_error("'" + std::string(id) + "' is no choice of heuristic '" + h.name + "': " + why,
                   {}, "collect and train again with this version");
}

ParameterSet::Value read_value(const Heuristic& h, const ChoiceParameter& p, const Json& json,
                               std::string_view id) {
  if (p.is_text) {
    if (!json.is_string()) refuse_id(h, id, "'" + p.name + "' is no text");
    return json.as_string();
  }
  if (p.labels.empty()) {
    if (!json.is_int()) refuse_id(h, id, "'" + p.name + "' is no integer");
    return json.as_int();
  }
  const auto label = json.is_string()
                         ? std::find(p.labels.begin(), p.labels.end(), json.as_string())
                         : p.labels.end();
  if (label == p.labels.end()) refuse_id(h, id, "'" + p.name + "' has no value " + json.dump());
  return std::int64_t{label - p.labels.begin()};
}

}  // namespace

double FeatureView::operator[](std::string_view name) const {
  for (const NamedFeature& f : features_) {
    if (f.name == name) return f.value;
  }
  return std::numeric_limits<double>::quiet_NaN();
}

ParameterSet& ParameterSet::set(std::string_view name, Value value) {
  const auto at = std::lower_bound(values_.begin(), values_.end(), name,
                                   [](const auto& v, std::string_view n) { return v.first < n; });
  if (at != values_.end() && at->first == name)
    at->second = std::move(value);
  else
    values_.insert(at, {std::string(name), std::move(value)});
  return *this;
}

const ParameterSet::Value* ParameterSet::find(std::string_view name) const {
  const auto at =
      std::find_if(values_.begin(), values_.end(), [&](const auto& v) { return v.first == name; });
  return at == values_.end() ? nullptr : &at->second;
}

std::int64_t ParameterSet::get(std::string_view name, std::int64_t otherwise) const {
  const Value* value = find(name);
  return value == nullptr ? otherwise : std::get<std::int64_t>(*value);
}

std::string ParameterSet::text(std::string_view name) const {
  const Value* value = find(name);
  return value == nullptr ? "" : std::get<std::string>(*value);
}

std::vector<HeuristicFeature> Heuristic::all_features() const {
  std::vector<HeuristicFeature> all = features;
  for (const AugmentedFeature& a : augmented) all.push_back(a.feature);
  return all;
}

std::vector<double> Heuristic::values_of(const NamedFeatures& of) const {
  const FeatureView view(of);
  std::vector<double> values;
  values.reserve(features.size() + augmented.size());
  for (const HeuristicFeature& f : features) values.push_back(view[f.name]);
  for (const AugmentedFeature& a : augmented) values.push_back(a.value(view));
  return values;
}

std::string Heuristic::why_not(const ParameterSet& choice, const Situation& problem) const {
  return why_invalid ? why_invalid(choice, problem) : "";
}

Choice Heuristic::knobs_of(const ParameterSet& choice, const Situation& problem) const {
  if (resolve) return resolve(choice, problem);
  Choice knobs;
  for (const auto& [name, value] : choice.values()) knobs.set(name, std::get<std::int64_t>(value));
  return knobs;
}

std::string Heuristic::id_of(const ParameterSet& choice) const {
  Json id = Json::object();
  for (const auto& [name, value] : choice.values()) {
    const ChoiceParameter knob{name};
    const ChoiceParameter* p = parameters.empty() ? &knob : find_parameter(*this, name);
    HEDDLE_ICHECK(p != nullptr, "heuristic '" + this->name + "' has no parameter '" + name + "'");
    if (p->is_text) {
      id[name] = std::get<std::string>(value);
      continue;
    }
    const std::int64_t number = std::get<std::int64_t>(value);
    if (p->labels.empty()) {
      id[name] = number;
      continue;
    }
    HEDDLE_ICHECK(number >= 0 && number < std::ssize(p->labels),
                  "parameter '" + name + "' has no label for " + std::to_string(number));
    id[name] = p->labels[static_cast<std::size_t>(number)];
  }
  return id.dump();
}

ParameterSet Heuristic::choice_of(std::string_view id) const {
  Json json;
  try {
    json = Json::parse(id, "choice");
  } catch (const Error& e) {
    refuse_id(*this, id, e.message);
  }
  if (!json.is_object()) refuse_id(*this, id, "it is no object");
  ParameterSet choice;
  for (const auto& [name, value] : json.members()) {
    const ChoiceParameter knob{name};
    const ChoiceParameter* p = parameters.empty() ? &knob : find_parameter(*this, name);
    if (p == nullptr) refuse_id(*this, id, "there is no parameter '" + name + "'");
    choice.set(name, read_value(*this, *p, value, id));
  }
  return choice;
}

bool register_heuristic(Heuristic heuristic) {
  const std::lock_guard lock(mutex());
  HEDDLE_ICHECK(is_word(heuristic.name),
                "'" + heuristic.name + "' is no word of a-z, 0-9 and _: no name of a heuristic");
  for (const Heuristic& h : registry()) {
    HEDDLE_ICHECK(h.name != heuristic.name, "two heuristics of the name " + h.name);
  }
  registry().push_back(std::move(heuristic));
  return true;
}

void unregister_heuristic(const std::string& name) {
  const std::lock_guard lock(mutex());
  registry().remove_if([&](const Heuristic& h) { return h.name == name; });
}

const Heuristic* find_heuristic(std::string_view name) {
  const std::lock_guard lock(mutex());
  for (const Heuristic& h : registry()) {
    if (h.name == name) return &h;
  }
  return nullptr;
}

const Heuristic& heuristic_of(const std::string& name) {
  if (const Heuristic* h = find_heuristic(name)) return *h;
  std::vector<std::string> names;
  for (const Heuristic* h : all_heuristics()) names.push_back(h->name);
  std::string hint = did_you_mean(name, names);
  if (!hint.empty()) hint += " ";
  throw_user_error("there is no heuristic '" + name + "'", {},
                   hint + "`heddle heuristic list` shows them");
}

std::vector<const Heuristic*> all_heuristics() {
  const std::lock_guard lock(mutex());
  std::vector<const Heuristic*> all;
  for (const Heuristic& h : registry()) all.push_back(&h);
  std::sort(all.begin(), all.end(),
            [](const Heuristic* a, const Heuristic* b) { return a->name < b->name; });
  return all;
}

}  // namespace heddle
