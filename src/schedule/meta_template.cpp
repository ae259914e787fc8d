// The registry of meta-templates, and the dispatch of a DAG's groups to them.
#include <algorithm>
#include <list>
#include <mutex>
#include <set>

#include "heddle/dag/alternatives.h"
#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "schedule/graph_choice.h"
#include "schedule/placement.h"

namespace heddle {
namespace {

std::mutex& mutex() {
  static std::mutex m;
  return m;
}
std::vector<MetaTemplate>& registry() {
  static std::vector<MetaTemplate> r;
  return r;
}

struct CacheEntry {
  uint64_t dag = 0;
  Target target;
  AutoSchedulerOptions options;
  std::string source;  ///< version of the ChoiceSource; "" where there is none
  Template value;
};
std::list<CacheEntry>& cache() {  // most recent first
  static std::list<CacheEntry> c;
  return c;
}
constexpr size_t kCacheEntries = 256;

const MetaTemplate& pick(const std::vector<MetaTemplate>& all, const ComputeDag& dag,
                         const StageGroup& g, const TemplateBuilder& builder) {
  const MetaTemplate* best = nullptr;
  bool tie = false;
  for (const MetaTemplate& t : all) {
    if (!t.matches(dag, g, builder.target())) continue;
    if (t.name == builder.options().force_template) return t;
    if (!best || t.priority > best->priority) {
      best = &t;
      tie = false;
    } else if (t.priority == best->priority) {
      tie = true;
    }
  }
  if (!best)
    throw_internal_error("no meta-template takes the group of stage '" +
                         dag.stage(g.output_stage).name() + "'");
  HEDDLE_ICHECK(!tie, "two meta-templates of one priority match stage '" +
                          dag.stage(g.output_stage).name() + "'");
  return *best;
}

// The note of a template about the choice of its graph; empty where there is nothing to say.
std::string note_of(const GraphChoice& choice) {
  if (choice.source != Choice::kRule) return "alternative by " + choice.source + ": " + choice.why;
  return choice.why.empty() ? "" : "alternative: " + choice.why;
}

// Runs the meta-templates of `all` on the groups of a graph, one after the other.
class Dispatcher {
 public:
  Dispatcher(const std::vector<MetaTemplate>& all, const ComputeDag& dag, const Target& target,
             const AutoSchedulerOptions& options)
      : all_(all), dag_(dag), builder_(dag, target, options) {}

  /// Lets `source` choose in place of the rules. With null the rules alone choose.
  Dispatcher& consult(std::shared_ptr<const ChoiceSource> source) {
    builder_.consult(std::move(source));
    return *this;
  }
  /// Says by what the graph was chosen.
  Dispatcher& chosen(const GraphChoice& graph) {
    if (graph.source != Choice::kRule) builder_.set_graph_source(graph.source);
    if (const std::string line = note_of(graph); !line.empty()) builder_.note(line);
    return *this;
  }
  void refuse(const std::string& why) { builder_.refuse({"", why}); }
  bool answered() const { return builder_.answered(); }

  Template run() {
    std::vector<StageGroup> groups = plan_groups(dag_, &builder_.target());
    for (size_t i = 0; i < groups.size(); ++i) {
      groups[i].allow_tf32 = builder_.options().allow_tf32;
      write_group(groups[i], groups.size() > 1 ? "g" + std::to_string(i) + "." : "");
    }
    // Operands are inlined last, when the packed copies that compute them exist.
    std::set<int, std::greater<>> operands;
    for (const StageGroup& g : groups) operands.insert(g.operands.begin(), g.operands.end());
    for (int s : operands) builder_.stage(s).compute_inline();
    return builder_.finish(name_);
  }

 private:
  void write_group(const StageGroup& g, const std::string& prefix) {
    const MetaTemplate& t = pick(all_, dag_, g, builder_);
    builder_.begin_part(t.name, prefix);
    builder_.note(t.name + ": " + g.reason);
    // Stages are inlined before any loop is shaped, readers first, because a reader's body must be
    // complete.
    for (auto it = g.inlined.rbegin(); it != g.inlined.rend(); ++it) {
      if (inlined_.insert(*it).second) builder_.stage(*it).compute_inline();
    }
    std::vector<int> inlined = g.inlined;
    inlined.insert(inlined.end(), g.operands.begin(), g.operands.end());
    // A product before others is computed where the last stage after it is, as inlined stages are.
    for (const auto* parts : {&g.images, &g.products}) {
      for (const StageGroup::Part& part : *parts) {
        if (part.product != part.last) inlined.push_back(part.product);
      }
    }
    builder_.begin_group(std::move(inlined));
    t.build(builder_, g);
    if (name_.find(t.name) == std::string::npos) name_ += (name_.empty() ? "" : "+") + t.name;
    // Readers are scheduled before the stages that they read, so that a producer knows where its
    // readers may be computed.
    for (auto it = g.tunable.rbegin(); it != g.tunable.rend(); ++it) write_attached(g, *it, prefix);
  }

  void write_attached(const StageGroup& host, int stage, const std::string& prefix) {
    const StageGroup g = attached_group(builder_, host, stage);
    const MetaTemplate& t = pick(all_, dag_, g, builder_);
    // The part is named by number. Names of stages may clash, and the template serves every
    // declaration of this structure, whatever the names of its tensors.
    builder_.begin_part(t.name, prefix + "s" + std::to_string(stage) + ".");
    builder_.note(t.name + ": " + g.reason);
    t.build(builder_, g);
    if (name_.find(t.name) == std::string::npos) name_ += "+" + t.name;
    require_enclosing(builder_, stage);
  }

  const std::vector<MetaTemplate>& all_;
  const ComputeDag& dag_;
  TemplateBuilder builder_;
  std::string name_;       ///< names of the meta-templates used so far
  std::set<int> inlined_;  ///< stages that are inlined already: several groups may read one
};

// The template that `all` write for `dag`, which is the graph of `chosen`, with the choices of
// `source` (null: the rules alone).
Template write_template(const std::vector<MetaTemplate>& all, const ComputeDag& dag,
                        const Target& target, const AutoSchedulerOptions& options,
                        const std::shared_ptr<const ChoiceSource>& source,
                        const GraphChoice& chosen) {
  Dispatcher first(all, dag, target, options);
  Template result = first.chosen(chosen).consult(source).run();
  if (!first.answered()) return result;
  const std::string why = result.why_invalid(result.default_config());
  if (why.empty()) return result;
  // The choices of the rules fit together. Answers for some knobs may not fit the others.
  Dispatcher rules(all, dag, target, options);
  rules.chosen(chosen);
  rules.refuse("the rules chose alone: what " + source->version() + " chose is not legal: " + why);
  return rules.run();
}

}  // namespace

bool register_meta_template(MetaTemplate t) {
  std::lock_guard lock(mutex());
  for (const MetaTemplate& x : registry()) {
    HEDDLE_ICHECK(x.name != t.name, "two meta-templates of the name " + t.name);
  }
  registry().push_back(std::move(t));
  cache().clear();
  return true;
}

void unregister_meta_template(const std::string& name) {
  std::lock_guard lock(mutex());
  std::erase_if(registry(), [&](const MetaTemplate& t) { return t.name == name; });
  cache().clear();
}

std::vector<std::string> meta_template_names() {
  std::lock_guard lock(mutex());
  std::vector<std::string> names;
  for (const MetaTemplate& t : registry()) names.push_back(t.name);
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

std::vector<MetaTemplate> all_meta_templates() {
  std::lock_guard lock(mutex());
  return registry();
}

// make_template with this source for the graph of `chosen`.
Template cached_template(const ComputeDag& dag, const Target& base,
                         const AutoSchedulerOptions& options,
                         const std::shared_ptr<const ChoiceSource>& source,
                         const GraphChoice& chosen = {}) {
  const Target target = apply_options(base, options);
  const uint64_t hash = dag.structural_hash();
  const std::string version = (source ? source->version() : "") + note_of(chosen);
  std::vector<MetaTemplate> all;
  {
    std::lock_guard lock(mutex());
    for (auto it = cache().begin(); it != cache().end(); ++it) {
      if (it->dag == hash && it->target == target && it->options == options &&
          it->source == version) {
        cache().splice(cache().begin(), cache(), it);
        return it->value.rebind(dag);
      }
    }
    all = registry();
  }
  Template result = write_template(all, dag, target, options, source, chosen);
  std::lock_guard lock(mutex());
  cache().push_front({hash, target, options, version, result});
  if (cache().size() > kCacheEntries) cache().pop_back();
  return result;
}

std::shared_ptr<const ChoiceSource> source_of(const AutoSchedulerOptions& options) {
  return options.use_heuristics ? installed_choice_source() : nullptr;
}

}  // namespace

Template make_template(const ComputeDag& dag, const Target& base,
                       const AutoSchedulerOptions& options) {
  check_options(options);
  return cached_template(dag, base, options, source_of(options));
}

Template make_template_with(const ComputeDag& dag, const Target& base,
                            const AutoSchedulerOptions& options,
                            std::shared_ptr<const ChoiceSource> source) {
  check_options(options);
  return write_template(all_meta_templates(), dag, apply_options(base, options), options, source,
                        {});
}

Template make_static_template(const ComputeDag& dag, const Target& target,
                              const AutoSchedulerOptions& options) {
  check_options(options);
  const auto source = source_of(options);
  const GraphChoice chosen =
      choose_graph(dag, apply_options(target, options), options, source.get());
  return cached_template(apply_alternative(dag, chosen.alternative), target, options,
                         with_reduction(source, chosen), chosen);
}

Template make_static_template_with(const ComputeDag& dag, const Target& base,
                                   const AutoSchedulerOptions& options,
                                   std::shared_ptr<const ChoiceSource> source) {
  check_options(options);
  const Target target = apply_options(base, options);
  const GraphChoice chosen = choose_graph(dag, target, options, source.get());
  return write_template(all_meta_templates(), apply_alternative(dag, chosen.alternative), target,
                        options, with_reduction(std::move(source), chosen), chosen);
}

Template make_template_of_alternatives(const ComputeDag& dag, const Target& base,
                                       const AutoSchedulerOptions& options) {
  check_options(options);
  const Target target = apply_options(base, options);
  const auto source = source_of(options);
  const GraphChoice by = choose_graph(dag, target, options, source.get());
  const auto form = [&](const std::string& name) {
    const bool chosen = name == by.alternative;
    return cached_template(apply_alternative(dag, name), base, options,
                           chosen ? with_reduction(source, by) : source,
                           chosen ? by : GraphChoice());
  };
  std::vector<Template> forms{form("")};
  size_t chosen = 0;
  for (const Alternative& a : alternatives_of(dag, target, alternative_policy(options))) {
    if (!a.legal()) continue;
    if (a.name == by.alternative) chosen = forms.size();
    forms.push_back(form(a.name));
  }
  return Template::of_alternatives(forms, chosen);
}

void clear_template_cache() {
  std::lock_guard lock(mutex());
  cache().clear();
}

}  // namespace heddle
