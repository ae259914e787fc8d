#include "heddle/schedule/template_builder.h"

#include <algorithm>

#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "heddle/target/rule_constants.h"

namespace heddle {
namespace {

/// `measured`, or the defaults where it is null.
std::shared_ptr<const RuleConstants> or_defaults(std::shared_ptr<const RuleConstants> measured) {
  static const auto defaults = std::make_shared<const RuleConstants>();
  return measured ? std::move(measured) : defaults;
}

}  // namespace

TemplateBuilder::TemplateBuilder(ComputeDag dag, const Target& target, AutoSchedulerOptions options)
    : dag_(std::move(dag)), constants_(or_defaults(nullptr)) {
  recorded_.target = apply_options(target, options);
  recorded_.options = std::move(options);
  init_axes(dag_);
}
TemplateBuilder::~TemplateBuilder() = default;

void TemplateBuilder::consult(std::shared_ptr<const ChoiceSource> source) {
  source_ = std::move(source);
  constants_ = or_defaults(source_ ? source_->constants(target()) : nullptr);
  if (const std::string moved = moved_text(*constants_, target().kind); !moved.empty())
    note(constants_->source + ": " + moved);
}

Param TemplateBuilder::knob(const std::string& name, std::vector<int64_t> values, int64_t chosen,
                            const std::string& reason) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (!std::binary_search(values.begin(), values.end(), chosen)) {
    values.insert(std::lower_bound(values.begin(), values.end(), chosen), chosen);
  }
  const int most = recorded_.options.max_knob_values;
  if (most > 0) {
    // Keeps the values nearest to the chosen one, so that a limited space stays centred on it.
    auto at = [&] {
      return std::lower_bound(values.begin(), values.end(), chosen) - values.begin();
    };
    while (static_cast<int>(values.size()) > most) {
      bool front = 2 * at() >= static_cast<int64_t>(values.size());
      values.erase(front ? values.begin() : values.end() - 1);
    }
  }
  std::string full = prefix_ + name;
  HEDDLE_ICHECK(!names_a_knob(full), "two knobs of the name " + full);
  recorded_.knobs.push_back({full, std::move(values), chosen, reason, writing_});
  return Param::of_knob(static_cast<int>(recorded_.knobs.size()) - 1);
}

bool TemplateBuilder::names_a_knob(const std::string& full_name) const {
  return std::any_of(recorded_.knobs.begin(), recorded_.knobs.end(),
                     [&](const Knob& k) { return k.is_called(full_name); });
}

Param TemplateBuilder::kind(const std::string& name, std::vector<std::string> labels,
                            int64_t chosen, const std::string& reason,
                            std::vector<int64_t> offered) {
  const auto count = static_cast<int64_t>(labels.size());
  auto known = [&](int64_t v) { return v >= 0 && v < count; };
  HEDDLE_ICHECK(known(chosen) && std::all_of(offered.begin(), offered.end(), known),
                "knob '" + name + "' has no label for a value that it may take");
  if (offered.empty()) {
    for (int64_t v = 0; v < count; ++v) offered.push_back(v);
  }
  const Param made = knob(name, std::move(offered), chosen, reason);
  recorded_.knobs.back().labels = std::move(labels);
  return made;
}

Param TemplateBuilder::kind(const std::string& name, std::vector<std::string> labels,
                            const std::string& chosen, const std::string& reason,
                            const std::vector<std::string>& offered) {
  auto at = [&](const std::string& label) {
    const auto found = std::find(labels.begin(), labels.end(), label);
    HEDDLE_ICHECK(found != labels.end(), "knob '" + name + "' has no label '" + label + "'");
    return static_cast<int64_t>(found - labels.begin());
  };
  std::vector<int64_t> values;
  for (const std::string& label : offered) values.push_back(at(label));
  const int64_t value = at(chosen);
  return kind(name, std::move(labels), value, reason, std::move(values));
}

int64_t TemplateBuilder::value_of(Param knob, const std::string& label) const {
  HEDDLE_ICHECK(!knob.is_const(), "a constant has no labels");
  const Knob& k = recorded_.knobs[static_cast<size_t>(knob.knob)];
  const auto at = std::find(k.labels.begin(), k.labels.end(), label);
  HEDDLE_ICHECK(at != k.labels.end(), "knob '" + k.name + "' has no label '" + label + "'");
  return at - k.labels.begin();
}

void TemplateBuilder::alias(Param knob, const std::string& old_name) {
  HEDDLE_ICHECK(!knob.is_const(), "a constant has no name");
  const std::string full = prefix_ + old_name;
  HEDDLE_ICHECK(!names_a_knob(full), "two knobs of the name " + full);
  recorded_.knobs[static_cast<size_t>(knob.knob)].aliases.push_back(full);
}

Param TemplateBuilder::choice(const std::string& name, bool chosen, const std::string& reason) {
  return knob(name, {0, 1}, chosen ? 1 : 0, reason);
}

Param TemplateBuilder::split_knob(const std::string& name, int64_t extent, int64_t limit,
                                  int64_t chosen, const std::string& reason) {
  return knob(name, split_factors(extent, limit),
              std::clamp<int64_t>(chosen, 1, std::max<int64_t>(1, extent)), reason);
}

void TemplateBuilder::when(Param knob, int64_t value, const std::function<void()>& fn) {
  HEDDLE_ICHECK(knob.knob >= 0, "when() needs a knob");
  guards_.push_back({knob.knob, value});
  // Alternatives do not see each other's changes: each starts from the state before. Stages that
  // one of them makes keep their ids.
  std::vector<StageAxes> before = stage_axes_;
  fn();
  std::copy(before.begin(), before.end(), stage_axes_.begin());
  guards_.pop_back();
}

void TemplateBuilder::require(const std::string& what, std::function<bool(const Value&)> ok) {
  recorded_.requirements.push_back({prefix_ + what, std::move(ok)});
}

std::vector<std::pair<Param, int64_t>> TemplateBuilder::open_guards() const {
  std::vector<std::pair<Param, int64_t>> out;
  for (const Guard& g : guards_) out.emplace_back(Param::of_knob(g.knob), g.value);
  return out;
}

void TemplateBuilder::offer_place(StageRef stage, Loop loop, const std::string& label,
                                  StageGroup::Place::Sharing sharing, bool whole_batch) {
  group_.places.push_back(
      {stage.id(), loop, label, open_guards(), std::move(sharing), whole_batch});
}

void TemplateBuilder::offer_reader_loop(int reader, StageRef partial, Loop loop, Param location) {
  group_.reader_loops.push_back({reader, partial.id(), loop, location, open_guards()});
}

int64_t TemplateBuilder::chosen(Param knob) const {
  return knob.is_const() ? knob.value
                         : recorded_.knobs[static_cast<size_t>(knob.knob)].default_value;
}

void TemplateBuilder::set_location(int stage, Param location) {
  group_.locations.push_back({stage, location});
}

void TemplateBuilder::note(const std::string& line) { recorded_.notes.push_back(line); }

void TemplateBuilder::refuse(TemplateRecording::Refusal refusal) {
  note(refusal.why);
  recorded_.refusals.push_back(std::move(refusal));
}

void TemplateBuilder::record(Step step) { recorded_.steps.push_back({std::move(step), guards_}); }

void TemplateBuilder::begin_group(std::vector<int> inlined) {
  group_ = {};
  group_.inlined = std::move(inlined);
}

void TemplateBuilder::begin_part(const std::string& meta_template, const std::string& prefix) {
  writing_ = meta_template;
  prefix_ = prefix;
}

Template TemplateBuilder::finish(std::string name) {
  recorded_.name = std::move(name);
  return Template(dag_, std::exchange(recorded_, {}));
}

Template TemplateBuilder::finish_as_last_resort(std::string name) {
  recorded_.last_resort = true;
  return finish(std::move(name));
}

}  // namespace heddle
