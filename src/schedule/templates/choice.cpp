#include "heddle/schedule/choice.h"

#include <algorithm>
#include <mutex>
#include <numeric>
#include <utility>

#include "heddle/schedule/template.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

std::mutex& mutex() {
  static std::mutex m;
  return m;
}
std::shared_ptr<const ChoiceSource>& installed() {
  static std::shared_ptr<const ChoiceSource> source;
  return source;
}

}  // namespace

Choice& Choice::set(std::string_view knob, int64_t value, std::string reason) {
  for (Entry& e : entries_) {
    if (e.knob != knob) continue;
    e.value = value;
    e.reason = std::move(reason);
    return *this;
  }
  entries_.push_back({std::string(knob), value, std::move(reason), source_});
  return *this;
}

Choice& Choice::set_kind(std::string_view knob, std::vector<std::string_view> labels, int64_t value,
                         std::string reason) {
  set(knob, value, std::move(reason));
  std::find_if(entries_.begin(), entries_.end(), [&](const Entry& e) {
    return e.knob == knob;
  })->labels = std::move(labels);
  return *this;
}

bool Choice::has(std::string_view knob) const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [&](const Entry& e) { return e.knob == knob; });
}

const Choice::Entry& Choice::find(std::string_view knob) const {
  for (const Entry& e : entries_) {
    if (e.knob == knob) return e;
  }
  throw_internal_error("the " + source_ + " chose nothing for knob '" + std::string(knob) + "'");
}

int64_t Choice::value(std::string_view knob) const { return find(knob).value; }
const std::string& Choice::reason(std::string_view knob) const { return find(knob).reason; }
const std::string& Choice::source(std::string_view knob) const { return find(knob).source; }
const std::vector<std::string_view>& Choice::labels(std::string_view knob) const {
  return find(knob).labels;
}

std::optional<int64_t> Choice::value_of(std::string_view knob, std::string_view label) const {
  if (!has(knob)) return std::nullopt;
  const std::vector<std::string_view>& all = labels(knob);
  const auto at = std::find(all.begin(), all.end(), label);
  if (at == all.end()) return std::nullopt;
  return at - all.begin();
}

std::vector<std::string> Choice::knobs() const {
  std::vector<std::string> names;
  for (const Entry& e : entries_) names.push_back(e.knob);
  return names;
}

std::vector<std::string> Choice::overlay(const Choice& answer) {
  std::vector<std::string> unknown;
  for (const Entry& said : answer.entries_) {
    const auto mine = std::find_if(entries_.begin(), entries_.end(),
                                   [&](const Entry& e) { return e.knob == said.knob; });
    if (mine == entries_.end()) {
      unknown.push_back(said.knob);
      continue;
    }
    replaced_.push_back(*mine);
    *mine = said;
    mine->labels = replaced_.back().labels;
  }
  return unknown;
}

Choice Choice::before_overlay() const {
  Choice out = *this;
  // The last replaced entry is restored first, because a knob may have been replaced more than
  // once.
  for (auto was = replaced_.rbegin(); was != replaced_.rend(); ++was) {
    *std::find_if(out.entries_.begin(), out.entries_.end(),
                  [&](const Entry& e) { return e.knob == was->knob; }) = *was;
  }
  out.replaced_.clear();
  return out;
}

std::shared_ptr<const ChoiceSource> install_choice_source(
    std::shared_ptr<const ChoiceSource> source) {
  std::lock_guard lock(mutex());
  return std::exchange(installed(), std::move(source));
}

std::shared_ptr<const ChoiceSource> installed_choice_source() {
  std::lock_guard lock(mutex());
  return installed();
}

std::optional<Choice> TemplateBuilder::ask_source(std::string_view heuristic,
                                                  const NamedFeatures& features,
                                                  const Choice& rule) {
  ChoiceAnswer answer = source_->choose({heuristic, features, recorded_.target, rule, &dag_});
  if (!answer.why.empty()) note(std::string(heuristic) + ": " + answer.why);
  if (answer.choice) answered_ = true;
  return std::move(answer.choice);
}

Choice TemplateBuilder::overlaid(std::string_view heuristic, Choice rule, const Choice& answer) {
  const std::string who = std::string(heuristic) + ": " + answer.source();
  for (const std::string& knob : rule.overlay(answer))
    note(who + " names '" + knob + "', which is no knob here");
  return rule;
}

Param TemplateBuilder::knob(const std::string& name, std::vector<int64_t> values,
                            const Choice& choice) {
  const Choice of_rule = choice.before_overlay();
  const int64_t said = choice.value(name), safe = of_rule.value(name);
  const std::string& source = choice.source(name);
  if (source == of_rule.source(name))
    return knob(name, std::move(values), said, choice.reason(name));
  if (said != safe && std::find(values.begin(), values.end(), said) == values.end()) {
    refuse({source, source + " says " + std::to_string(said) + " for '" + prefix_ + name +
                        "', which is not offered: " + std::to_string(safe) +
                        " of the rule stands"});
    return knob(name, std::move(values), safe, of_rule.reason(name));
  }
  values.push_back(safe);
  const Param p = knob(name, std::move(values), said, source + ": " + choice.reason(name));
  recorded_.knobs.back().source = source;
  return p;
}

Param TemplateBuilder::choice(const std::string& name, const Choice& choice) {
  return knob(name, {0, 1}, choice);
}

Param TemplateBuilder::kind(const std::string& name, std::vector<std::string> labels,
                            const Choice& choice, std::vector<int64_t> offered) {
  if (offered.empty()) {
    offered.resize(labels.size());
    std::iota(offered.begin(), offered.end(), 0);
  }
  const Param made = knob(name, std::move(offered), choice);
  const std::vector<int64_t>& values = recorded_.knobs.back().values;
  HEDDLE_ICHECK(values.front() >= 0 && values.back() < std::ssize(labels),
                "knob '" + name + "' has no label for a value that it may take");
  recorded_.knobs.back().labels = std::move(labels);
  return made;
}

Param TemplateBuilder::kind(const std::string& name, const Choice& choice,
                            std::vector<int64_t> offered) {
  const std::vector<std::string_view>& labels = choice.labels(name);
  return kind(name, {labels.begin(), labels.end()}, choice, std::move(offered));
}

Param TemplateBuilder::split_knob(const std::string& name, int64_t extent, int64_t limit,
                                  const Choice& choice) {
  std::vector<int64_t> values = split_factors(extent, limit);
  // A source may choose values that are not searched, as a rule may.
  if (const int64_t said = choice.value(name); said >= 1 && said <= extent) values.push_back(said);
  return knob(name, std::move(values), choice);
}

std::vector<int64_t> split_factors(int64_t extent, int64_t limit) {
  std::vector<int64_t> values;
  const int64_t most = std::max<int64_t>(1, std::min(extent, limit));
  for (int64_t v = 1; v <= most; v *= 2) values.push_back(v);
  for (int64_t v = 1; v <= most; ++v) {
    if (extent % v == 0) values.push_back(v);
  }
  return values;
}

}  // namespace heddle
