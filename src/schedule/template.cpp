#include "heddle/schedule/template.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "heddle/support/hash.h"
#include "schedule/schedule_state.h"

namespace heddle {
namespace {

constexpr const char* kAlternative = "alternative";

uint64_t hash_of(const Step& step) {
  auto list = [](uint64_t h, const std::vector<int>& values) {
    for (int v : values) h = hash_combine(h, static_cast<uint64_t>(v));
    return hash_combine(h, values.size());
  };
  const FirstForm form = first_form(step);
  uint64_t h = hash_combine(form.number, static_cast<uint64_t>(step.stage));
  h = list(list(h, step.axes), step.results);
  for (size_t i = 0; i < form.params; ++i) {
    const Param& p = step.params[i];
    h = hash_combine(h, p.is_const() ? static_cast<uint64_t>(p.value) : 0);
    h = hash_combine(h, static_cast<uint64_t>(p.knob + 1));
  }
  return h;
}

}  // namespace

/// Holds no tensor: one recording serves every DAG of the same structure.
struct Template::Impl {
  std::string name;
  Target target;
  AutoSchedulerOptions options;
  std::vector<Knob> knobs;
  std::vector<TemplateBuilder::GuardedStep> steps;
  std::vector<TemplateBuilder::Requirement> requirements;
  std::vector<std::string> notes;
  /// Of a template of alternatives: the graphs' own, and where their knobs begin among `knobs`.
  std::vector<Template> branches;
  std::vector<size_t> begin;
};

TemplateBuilder::TemplateBuilder(ComputeDag dag, const Target& target, AutoSchedulerOptions options)
    : dag_(std::move(dag)), target_(apply_options(target, options)), options_(std::move(options)) {
  init_axes(dag_);
}
TemplateBuilder::~TemplateBuilder() = default;

Param TemplateBuilder::knob(const std::string& name, std::vector<int64_t> values, int64_t chosen,
                            const std::string& reason) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  if (!std::binary_search(values.begin(), values.end(), chosen)) {
    values.insert(std::lower_bound(values.begin(), values.end(), chosen), chosen);
  }
  const int most = options_.max_knob_values;
  if (most > 0) {
    // Keep the values nearest to the chosen one, so that a limited space is still centred on it.
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
  knobs_.push_back({full, std::move(values), chosen, reason, writing_});
  return Param::of_knob(static_cast<int>(knobs_.size()) - 1);
}

bool TemplateBuilder::names_a_knob(const std::string& full_name) const {
  return std::any_of(knobs_.begin(), knobs_.end(),
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
  knobs_.back().labels = std::move(labels);
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
  const Knob& k = knobs_[static_cast<size_t>(knob.knob)];
  const auto at = std::find(k.labels.begin(), k.labels.end(), label);
  HEDDLE_ICHECK(at != k.labels.end(), "knob '" + k.name + "' has no label '" + label + "'");
  return at - k.labels.begin();
}

void TemplateBuilder::alias(Param knob, const std::string& old_name) {
  HEDDLE_ICHECK(!knob.is_const(), "a constant has no name");
  const std::string full = prefix_ + old_name;
  HEDDLE_ICHECK(!names_a_knob(full), "two knobs of the name " + full);
  knobs_[static_cast<size_t>(knob.knob)].aliases.push_back(full);
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
  // Alternatives do not see each other's changes: what follows starts from the state before. Stages
  // made inside keep their ids.
  std::vector<StageAxes> before = stage_axes_;
  fn();
  std::copy(before.begin(), before.end(), stage_axes_.begin());
  guards_.pop_back();
}

void TemplateBuilder::require(const std::string& what, std::function<bool(const Value&)> ok) {
  requirements_.push_back({prefix_ + what, std::move(ok)});
}

void TemplateBuilder::offer_place(StageRef stage, Loop loop, const std::string& label,
                                  StageGroup::Place::Sharing sharing, bool whole_batch) {
  StageGroup::Place place{stage.id(), loop, label, {}, std::move(sharing), whole_batch};
  for (const Guard& g : guards_) place.needs.emplace_back(Param::of_knob(g.knob), g.value);
  places_.push_back(std::move(place));
}

void TemplateBuilder::offer_reader_loop(int reader, StageRef partial, Loop loop, Param location) {
  StageGroup::ReaderLoop offer{reader, partial.id(), loop, location, {}};
  for (const Guard& g : guards_) offer.needs.emplace_back(Param::of_knob(g.knob), g.value);
  reader_loops_.push_back(std::move(offer));
}

int64_t TemplateBuilder::chosen(Param knob) const {
  return knob.is_const() ? knob.value : knobs_[static_cast<size_t>(knob.knob)].default_value;
}

void TemplateBuilder::set_location(int stage, Param location) {
  locations_.push_back({stage, location});
}

void TemplateBuilder::note(const std::string& line) { notes_.push_back(line); }

void TemplateBuilder::record(Step step) { steps_.push_back({std::move(step), guards_}); }

Template TemplateBuilder::finish(std::string name) {
  auto impl = std::make_shared<Template::Impl>();
  impl->name = std::move(name);
  impl->target = target_;
  impl->options = options_;
  impl->knobs = std::move(knobs_);
  impl->steps = std::move(steps_);
  impl->requirements = std::move(requirements_);
  impl->notes = std::move(notes_);
  return Template(dag_, std::move(impl));
}

Template Template::rebind(const ComputeDag& dag) const { return Template(dag, impl_); }
const std::string& Template::name() const { return impl_->name; }
const Target& Template::target() const { return impl_->target; }
const AutoSchedulerOptions& Template::options() const { return impl_->options; }
const std::vector<Knob>& Template::knobs() const { return impl_->knobs; }
const std::vector<std::string>& Template::notes() const { return impl_->notes; }

uint64_t Template::fingerprint() const {
  // Names and steps, not the values offered nor those chosen: what a config means depends on the
  // former only.
  uint64_t h = hash_string(impl_->name);
  for (const Template& b : impl_->branches) {
    h = hash_combine(hash_combine(h, hash_string(b.dag().alternative())), b.fingerprint());
  }
  for (const Knob& k : impl_->knobs) h = hash_combine(h, hash_string(k.first_name()));
  for (const auto& g : impl_->steps) {
    for (const auto& x : g.guards) {
      h = hash_combine(hash_combine(h, static_cast<uint64_t>(x.knob)),
                       static_cast<uint64_t>(x.value));
    }
    h = hash_combine(h, hash_of(g.step));
  }
  return h;
}

int Template::knob_index(const std::string& name) const {
  for (size_t i = 0; i < impl_->knobs.size(); ++i) {
    if (impl_->knobs[i].is_called(name)) return static_cast<int>(i);
  }
  return -1;
}

double Template::space_size() const {
  if (!impl_->branches.empty()) {
    double all = 0;
    for (const Template& b : impl_->branches) all += b.space_size();
    return all;
  }
  double n = 1;
  for (const Knob& k : impl_->knobs) n *= static_cast<double>(k.values.size());
  return n;
}

Config Template::default_config() const {
  Config c;
  for (const Knob& k : impl_->knobs) c.values.push_back(k.default_value);
  return c;
}

std::string Template::why_invalid(const Config& config) const {
  if (config.values.size() != impl_->knobs.size()) {
    return "it has " + std::to_string(config.values.size()) + " values for " +
           std::to_string(impl_->knobs.size()) + " knobs";
  }
  for (size_t i = 0; i < impl_->knobs.size(); ++i) {
    const Knob& k = impl_->knobs[i];
    if (!std::binary_search(k.values.begin(), k.values.end(), config.values[i])) {
      return "knob '" + k.name + "' cannot be " + k.text_of(config.values[i]);
    }
  }
  if (!impl_->branches.empty())
    return branch(branch_of(config)).why_invalid(config_in_branch(config));
  auto value = [&](Param p) { return p.knob < 0 ? p.value : config.values[p.knob]; };
  for (const auto& r : impl_->requirements) {
    if (!r.ok(value)) return r.what;
  }
  return "";
}

Schedule Template::instantiate(const Config& config) const {
  std::string why = why_invalid(config);
  if (!why.empty())
    throw_user_error("this config is not legal for template '" + impl_->name + "': " + why);
  if (!impl_->branches.empty())
    return branch(branch_of(config)).instantiate(config_in_branch(config));
  Schedule s(dag_, impl_->target, impl_->options);
  for (const auto& g : impl_->steps) {
    bool on = std::all_of(g.guards.begin(), g.guards.end(),
                          [&](const auto& x) { return config.values[x.knob] == x.value; });
    if (!on) continue;
    Step step = g.step;
    for (Param& p : step.params) {
      if (!p.is_const()) p = Param(config.values[p.knob]);
    }
    s.apply(step);
  }
  s.provenance = "template " + impl_->name;
  if (!dag_.alternative().empty()) s.provenance += " of " + dag_.alternative();
  return s;
}

Schedule Template::static_schedule() const {
  const Config config = default_config();
  const Template& used = branch(branch_of(config));
  Schedule s = instantiate(config);
  const std::string& alternative = used.dag().alternative();
  s.provenance = "analytic rule of " + used.name() +
                 (alternative.empty() ? "" : ", alternative " + alternative);
  return s;
}

Json Template::config_to_json(const Config& config) const {
  if (!impl_->branches.empty()) {
    const int b = branch_of(config);
    Json of_branch = branch(b).config_to_json(config_in_branch(config));
    if (b > 0) of_branch[kAlternative] = branch(b).dag().alternative();
    return of_branch;
  }
  Json out = Json::object();
  for (size_t i = 0; i < impl_->knobs.size(); ++i)
    out[impl_->knobs[i].name] = impl_->knobs[i].json_of(config.values.at(i));
  return out;
}

Config Template::config_from_json(const Json& json) const {
  if (!impl_->branches.empty()) {
    Json rest = Json::object();
    std::string alternative;
    for (const auto& [name, value] : json.members()) {
      if (name == kAlternative) {
        alternative = value.as_string();
      } else {
        rest[name] = value;
      }
    }
    const int b = find_branch(alternative);
    if (b < 0) throw_user_error("there is no alternative '" + alternative + "' here");
    return config_of_branch(b, branch(b).config_from_json(rest));
  }
  Config c = default_config();
  std::vector<bool> named(c.values.size());
  for (const auto& [name, value] : json.members()) {
    const int at = knob_index(name);
    if (at < 0) throw_user_error("template '" + impl_->name + "' has no knob '" + name + "'");
    const Knob& k = impl_->knobs[static_cast<size_t>(at)];
    if (named[static_cast<size_t>(at)])
      throw_user_error("the config names knob '" + k.name + "' twice, once as '" + name + "'");
    named[static_cast<size_t>(at)] = true;
    const std::optional<int64_t> v = k.value_of(value);
    if (!v) {
      throw_user_error("knob '" + k.name + "' cannot be " + value.dump(), {},
                       "it is one of: " + k.values_text());
    }
    c.values[static_cast<size_t>(at)] = *v;
  }
  std::string why = why_invalid(c);
  if (!why.empty())
    throw_user_error("this config is not legal for template '" + impl_->name + "': " + why);
  return c;
}

int Template::num_branches() const { return std::max(1, static_cast<int>(impl_->branches.size())); }

const Template& Template::branch(int i) const {
  HEDDLE_ICHECK(i >= 0 && i < num_branches(), "no branch " + std::to_string(i));
  return impl_->branches.empty() ? *this : impl_->branches[static_cast<size_t>(i)];
}

int Template::find_branch(const std::string& alternative) const {
  for (int i = 0; i < num_branches(); ++i) {
    if (branch(i).dag().alternative() == alternative) return i;
  }
  return -1;
}

int Template::branch_of(const Config& config) const {
  return impl_->branches.empty() ? 0 : static_cast<int>(config.values.at(0));
}

Config Template::config_in_branch(const Config& config) const {
  if (impl_->branches.empty()) return config;
  const auto b = static_cast<size_t>(branch_of(config));
  const auto begin = config.values.begin() + static_cast<ptrdiff_t>(impl_->begin[b]);
  const size_t count = impl_->branches[b].knobs().size();
  return {std::vector<int64_t>(begin, begin + static_cast<ptrdiff_t>(count))};
}

Config Template::config_of_branch(int i, const Config& config) const {
  if (impl_->branches.empty()) return config;
  Config out = default_config();
  out.values[0] = i;
  std::copy(config.values.begin(), config.values.end(),
            out.values.begin() + static_cast<ptrdiff_t>(impl_->begin.at(static_cast<size_t>(i))));
  return out;
}

int Template::branch_of_knob(size_t knob) const {
  if (impl_->branches.empty()) return 0;
  const auto at = std::upper_bound(impl_->begin.begin(), impl_->begin.end(), knob);
  return static_cast<int>(at - impl_->begin.begin()) - 1;
}

Template make_static_template(const ComputeDag& dag, const Target& target,
                              const AutoSchedulerOptions& options) {
  const std::string chosen =
      choose_alternative(dag, apply_options(target, options), alternative_policy(options));
  return make_template(apply_alternative(dag, chosen), target, options);
}

Template make_template_of_alternatives(const ComputeDag& dag, const Target& target,
                                       const AutoSchedulerOptions& options) {
  const AlternativePolicy policy = alternative_policy(options);
  const Template direct = make_template(dag, target, options);
  const std::vector<Alternative> all = alternatives_of(dag, direct.target(), policy);
  const Alternative* best = most_promising(all);
  auto impl = std::make_shared<Template::Impl>();
  impl->branches.push_back(direct);
  int64_t chosen = 0;
  for (const Alternative& a : all) {
    if (!a.legal()) continue;
    if (&a == best) chosen = static_cast<int64_t>(impl->branches.size());
    impl->branches.push_back(make_template(apply_alternative(dag, a.name), target, options));
  }
  if (impl->branches.size() == 1) return direct;
  impl->name = direct.name();
  impl->target = direct.target();
  impl->options = options;
  Knob which{kAlternative, {}, chosen, "the direct form", "alternatives"};
  impl->notes = direct.notes();
  for (size_t b = 0; b < impl->branches.size(); ++b) {
    const Template& t = impl->branches[b];
    const std::string& name = t.dag().alternative();
    which.values.push_back(static_cast<int64_t>(b));
    which.labels.push_back(name.empty() ? "direct" : name);
    if (static_cast<int64_t>(b) == chosen && b > 0) which.reason = name + " promises most";
    if (b > 0) impl->notes.push_back("alternative " + std::to_string(b) + ": " + name);
  }
  impl->knobs.push_back(std::move(which));
  for (const Template& t : impl->branches) {
    impl->begin.push_back(impl->knobs.size());
    const std::string& name = t.dag().alternative();
    for (Knob k : t.knobs()) {
      if (!name.empty()) {
        k.name = name + ":" + k.name;
        for (std::string& alias : k.aliases) alias = name + ":" + alias;
      }
      impl->knobs.push_back(std::move(k));
    }
  }
  return Template(dag, std::move(impl));
}

std::string Template::to_text() const {
  if (!impl_->branches.empty()) {
    std::string all;
    for (const Template& b : impl_->branches) {
      const std::string& name = b.dag().alternative();
      all += (name.empty() ? "" : "\nalternative " + name + "\n") + b.to_text();
    }
    return all;
  }
  std::string out = "template " + impl_->name + " for " + to_string(impl_->target) + "\n";
  for (const std::string& n : impl_->notes) out += "  # " + n + "\n";
  for (const Knob& k : impl_->knobs) {
    out += "  knob " + k.name + " = " + k.text_of(k.default_value) + "  of {" + k.values_text();
    out += "}" + (k.reason.empty() ? "" : "  # " + k.reason) + "\n";
  }
  // Names come from replaying the steps that apply by default; the others show ids.
  const Schedule s = static_schedule();
  for (const auto& g : impl_->steps) {
    out += "  ";
    for (const auto& x : g.guards) {
      const Knob& k = impl_->knobs[static_cast<size_t>(x.knob)];
      out += "[" + k.name + "=" + k.text_of(x.value) + "] ";
    }
    Step shown = g.step;
    std::string knobs;
    for (Param& p : shown.params) {
      if (p.is_const()) continue;
      knobs += (knobs.empty() ? "  # " : ", ") + impl_->knobs[p.knob].name;
      p = Param(impl_->knobs[p.knob].default_value);
    }
    out += step_to_text(s.state(), shown) + knobs + "\n";
  }
  return out;
}

}  // namespace heddle
