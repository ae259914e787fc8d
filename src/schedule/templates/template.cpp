#include "heddle/schedule/template.h"

#include <algorithm>
#include <utility>

#include "heddle/support/error.h"
#include "schedule/steps/schedule_state.h"
#include "support/hashing/hash.h"

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

// Hashes names and steps. The values that are offered or chosen are left out, because the meaning
// of a config does not depend on them. The expectations about code generation are left out too.
uint64_t hash_of(const TemplateRecording& recorded) {
  uint64_t h = hash_string(recorded.name);
  for (const Knob& k : recorded.knobs) h = hash_combine(h, hash_string(k.first_name()));
  for (const auto& g : recorded.steps) {
    if (g.step.kind == StepKind::Expect) continue;
    for (const auto& x : g.guards) {
      h = hash_combine(hash_combine(h, static_cast<uint64_t>(x.knob)),
                       static_cast<uint64_t>(x.value));
    }
    h = hash_combine(h, hash_of(g.step));
  }
  return h;
}

// A knob of an alternative, renamed so that it can stand beside those of the others.
Knob knob_of_alternative(Knob knob, const std::string& alternative) {
  if (alternative.empty()) return knob;
  knob.name = alternative + ":" + knob.name;
  for (std::string& alias : knob.aliases) alias = alternative + ":" + alias;
  return knob;
}

}  // namespace

Template::Template(ComputeDag dag, TemplateRecording recorded)
    : Template(std::move(dag), std::make_shared<const TemplateRecording>(std::move(recorded))) {}

Template::Template(ComputeDag dag, std::shared_ptr<const TemplateRecording> recorded)
    : branches_{{std::move(dag), recorded, 0}}, knobs_(recorded, &recorded->knobs) {}

Template Template::of_alternatives(const std::vector<Template>& forms, size_t chosen) {
  HEDDLE_ICHECK(chosen < forms.size(), "no form is number " + std::to_string(chosen));
  if (forms.size() == 1) return forms[0];
  Template out = forms[0];
  out.branches_.clear();
  Knob which;
  which.name = kAlternative;
  which.default_value = static_cast<int64_t>(chosen);
  which.reason =
      chosen == 0 ? "the direct form" : forms[chosen].dag().alternative() + " promises most";
  which.meta_template = "alternatives";
  std::vector<Knob> knobs(1);
  for (const Template& form : forms) {
    Branch branch = form.branches_.front();
    const std::string& name = branch.alternative();
    which.values.push_back(static_cast<int64_t>(out.branches_.size()));
    which.labels.push_back(name.empty() ? "direct" : name);
    branch.first_knob = knobs.size();
    for (const Knob& k : form.knobs()) knobs.push_back(knob_of_alternative(k, name));
    out.branches_.push_back(std::move(branch));
  }
  knobs[0] = std::move(which);
  out.knobs_ = std::make_shared<const std::vector<Knob>>(std::move(knobs));
  return out;
}

Template Template::rebind(const ComputeDag& dag) const {
  HEDDLE_ICHECK(!has_alternatives(), "a template of alternatives belongs to its graphs");
  return Template(dag, branches_.front().recorded);
}

const std::string& Template::name() const { return branches_.front().recorded->name; }
const Target& Template::target() const { return branches_.front().recorded->target; }
const AutoSchedulerOptions& Template::options() const {
  return branches_.front().recorded->options;
}

std::vector<std::string> Template::notes() const {
  std::vector<std::string> out = branches_.front().recorded->notes;
  for (int i = 1; i < num_branches(); ++i)
    out.push_back("alternative " + std::to_string(i) + ": " + branch_at(i).alternative());
  return out;
}

const std::vector<TemplateRecording::Refusal>& Template::refusals() const {
  return branches_.front().recorded->refusals;
}

const std::string& Template::graph_source() const {
  return branches_.front().recorded->graph_source;
}

uint64_t Template::fingerprint() const {
  if (!has_alternatives()) return hash_of(*branches_.front().recorded);
  uint64_t h = hash_string(name());
  for (const Branch& b : branches_)
    h = hash_combine(hash_combine(h, hash_string(b.alternative())), hash_of(*b.recorded));
  return h;
}

int Template::knob_index(const std::string& name) const {
  for (size_t i = 0; i < knobs().size(); ++i) {
    if (knobs()[i].is_called(name)) return static_cast<int>(i);
  }
  return -1;
}

double Template::space_size() const {
  double all = 0;
  for (const Branch& b : branches_) {
    double n = 1;
    for (const Knob& k : b.recorded->knobs) n *= static_cast<double>(k.values.size());
    all += n;
  }
  return all;
}

Config Template::default_config() const {
  Config c;
  for (const Knob& k : knobs()) c.values.push_back(k.default_value);
  return c;
}

std::string Template::why_invalid(const Config& config) const {
  if (config.values.size() != knobs().size()) {
    return "it has " + std::to_string(config.values.size()) + " values for " +
           std::to_string(knobs().size()) + " knobs";
  }
  for (size_t i = 0; i < knobs().size(); ++i) {
    const Knob& k = knobs()[i];
    if (!std::binary_search(k.values.begin(), k.values.end(), config.values[i])) {
      return "knob '" + k.name + "' cannot be " + k.text_of(config.values[i]);
    }
  }
  const Branch& branch = branch_at(branch_of(config));
  auto value = [&](Param p) {
    return p.is_const() ? p.value : config.values[branch.first_knob + static_cast<size_t>(p.knob)];
  };
  for (const auto& r : branch.recorded->requirements) {
    if (!r.ok(value)) return r.what;
  }
  return "";
}

Schedule Template::instantiate(const Config& config) const {
  const std::string why = why_invalid(config);
  if (!why.empty())
    throw_user_error("this config is not legal for template '" + name() + "': " + why);
  const Branch& branch = branch_at(branch_of(config));
  const std::vector<int64_t> values = config_in_branch(config).values;
  auto value = [&](int knob) { return values[static_cast<size_t>(knob)]; };
  Schedule s(branch.dag, branch.recorded->target, branch.recorded->options);
  for (const auto& g : branch.recorded->steps) {
    const bool on = std::all_of(g.guards.begin(), g.guards.end(),
                                [&](const auto& x) { return value(x.knob) == x.value; });
    if (!on) continue;
    Step step = g.step;
    for (Param& p : step.params) {
      if (!p.is_const()) p = Param(value(p.knob));
    }
    s.apply(step);
  }
  s.provenance = "template " + branch.recorded->name;
  if (!branch.alternative().empty()) s.provenance += " of " + branch.alternative();
  return s;
}

Schedule Template::static_schedule() const {
  const Config config = default_config();
  const Branch& used = branch_at(branch_of(config));
  Schedule s = instantiate(config);
  std::string learned;  // the sources that chose in place of rules
  for (const Knob& k : used.recorded->knobs) {
    if (k.source != Choice::kRule && learned.find(k.source) == std::string::npos)
      learned += k.source + ", ";
  }
  s.provenance = learned + "analytic rule of " + used.recorded->name +
                 (used.alternative().empty() ? "" : ", alternative " + used.alternative());
  return s;
}

// ---- configs as JSON ---------------------------------------------------------------------------

Json Template::config_to_json(const Config& config) const {
  const int at = branch_of(config);
  const Branch& branch = branch_at(at);
  const std::vector<Knob>& own = branch.recorded->knobs;
  Json out = Json::object();
  for (size_t i = 0; i < own.size(); ++i)
    out[own[i].name] = own[i].json_of(config.values.at(branch.first_knob + i));
  if (at > 0) out[kAlternative] = branch.alternative();
  return out;
}

Config Template::config_from_json(const Json& json) const {
  int at = 0;
  if (const Json* alternative = has_alternatives() ? json.find(kAlternative) : nullptr)
    at = find_branch(alternative->as_string());
  if (at < 0)
    throw_user_error("there is no alternative '" + json.at(kAlternative).as_string() + "' here");
  const Template own = branch(at);
  Config c = own.default_config();
  std::vector<bool> named(c.values.size());
  for (const auto& [name, value] : json.members()) {
    if (has_alternatives() && name == kAlternative) continue;
    const int k = own.knob_index(name);
    if (k < 0) throw_user_error("template '" + own.name() + "' has no knob '" + name + "'");
    const Knob& knob = own.knobs()[static_cast<size_t>(k)];
    if (named[static_cast<size_t>(k)])
      throw_user_error("the config names knob '" + knob.name + "' twice, once as '" + name + "'");
    named[static_cast<size_t>(k)] = true;
    const std::optional<int64_t> v = knob.value_of(value);
    if (!v) {
      throw_user_error("knob '" + knob.name + "' cannot be " + value.dump(), {},
                       "it is one of: " + knob.values_text());
    }
    c.values[static_cast<size_t>(k)] = *v;
  }
  const std::string why = own.why_invalid(c);
  if (!why.empty())
    throw_user_error("this config is not legal for template '" + own.name() + "': " + why);
  return config_of_branch(at, c);
}

// ---- branches ----------------------------------------------------------------------------------

int Template::num_branches() const { return static_cast<int>(branches_.size()); }

const Template::Branch& Template::branch_at(int i) const {
  HEDDLE_ICHECK(i >= 0 && i < num_branches(), "no branch " + std::to_string(i));
  return branches_[static_cast<size_t>(i)];
}

Template Template::branch(int i) const {
  const Branch& b = branch_at(i);
  return Template(b.dag, b.recorded);
}

int Template::find_branch(const std::string& alternative) const {
  for (int i = 0; i < num_branches(); ++i) {
    if (branch_at(i).alternative() == alternative) return i;
  }
  return -1;
}

int Template::branch_of(const Config& config) const {
  return has_alternatives() ? static_cast<int>(config.values.at(0)) : 0;
}

Config Template::config_in_branch(const Config& config) const {
  const Branch& b = branch_at(branch_of(config));
  const auto begin = config.values.begin() + static_cast<ptrdiff_t>(b.first_knob);
  return {std::vector<int64_t>(begin, begin + static_cast<ptrdiff_t>(b.recorded->knobs.size()))};
}

Config Template::config_of_branch(int i, const Config& config) const {
  Config out = default_config();
  if (has_alternatives()) out.values[0] = i;
  std::copy(config.values.begin(), config.values.end(),
            out.values.begin() + static_cast<ptrdiff_t>(branch_at(i).first_knob));
  return out;
}

int Template::branch_of_knob(size_t knob) const {
  const auto after = std::find_if(branches_.begin(), branches_.end(),
                                  [&](const Branch& b) { return b.first_knob > knob; });
  return static_cast<int>(after - branches_.begin()) - 1;
}

// ---- text --------------------------------------------------------------------------------------

std::string Template::text_of(const Branch& branch) {
  const TemplateRecording& r = *branch.recorded;
  std::string out = "template " + r.name + " for " + to_string(r.target) + "\n";
  for (const std::string& n : r.notes) out += "  # " + n + "\n";
  for (const Knob& k : r.knobs) {
    out += "  knob " + k.name + " = " + k.text_of(k.default_value) + "  of {" + k.values_text();
    out += "}" + (k.reason.empty() ? "" : "  # " + k.reason) + "\n";
  }
  // Names come from replaying the steps that apply by default. Steps that do not apply show ids.
  const Schedule s = Template(branch.dag, branch.recorded).static_schedule();
  for (const auto& g : r.steps) {
    out += "  ";
    for (const auto& x : g.guards) {
      const Knob& k = r.knobs[static_cast<size_t>(x.knob)];
      out += "[" + k.name + "=" + k.text_of(x.value) + "] ";
    }
    Step shown = g.step;
    std::string knobs;
    for (Param& p : shown.params) {
      if (p.is_const()) continue;
      const Knob& k = r.knobs[static_cast<size_t>(p.knob)];
      knobs += (knobs.empty() ? "  # " : ", ") + k.name;
      p = Param(k.default_value);
    }
    out += step_to_text(s.state(), shown) + knobs + "\n";
  }
  return out;
}

std::string Template::to_text() const {
  std::string all;
  for (const Branch& b : branches_) {
    if (has_alternatives() && !b.alternative().empty())
      all += "\nalternative " + b.alternative() + "\n";
    all += text_of(b);
  }
  return all;
}

}  // namespace heddle
