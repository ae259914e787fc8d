// The registry of meta-templates, and the templates that they write, which are cached.
#include <algorithm>
#include <list>
#include <mutex>

#include "heddle/dag/alternatives.h"
#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "schedule/templates/graph_choice.h"
#include "schedule/templates/write_template.h"
#include "support/recent.h"

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
// What leaves the cache is destroyed without the lock: with it go arrays of others, whose deleters may
// wait for another lock, such as that of Python's interpreter, which a thread holds that waits for this
// one.
Recent<CacheEntry>& cache() {
  static Recent<CacheEntry> c(256);
  return c;
}

}  // namespace

bool register_meta_template(MetaTemplate t) {
  std::list<CacheEntry> dropped;
  std::lock_guard lock(mutex());
  for (const MetaTemplate& x : registry()) {
    HEDDLE_ICHECK(x.name != t.name, "two meta-templates of the name " + t.name);
  }
  registry().push_back(std::move(t));
  dropped = cache().drop_all();
  return true;
}

void unregister_meta_template(const std::string& name) {
  std::list<CacheEntry> dropped;
  std::lock_guard lock(mutex());
  std::erase_if(registry(), [&](const MetaTemplate& t) { return t.name == name; });
  dropped = cache().drop_all();
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
    const CacheEntry* known = cache().find([&](const CacheEntry& e) {
      return e.dag == hash && e.target == target && e.options == options && e.source == version;
    });
    if (known) return known->value.rebind(dag);
    all = registry();
  }
  Template result = write_template(all, {dag, target, options, source, chosen});
  std::list<CacheEntry> dropped;
  std::lock_guard lock(mutex());
  dropped = cache().drop_for_another();
  cache().add({hash, target, options, version, result});
  return result;
}

std::shared_ptr<const ChoiceSource> source_of(const AutoSchedulerOptions& options) {
  return options.use_heuristics ? installed_choice_source() : nullptr;
}

// What `write` writes for the chosen graph, or for the declared one where only the naive schedule of
// the chosen one is legal.
template <class F>
Template of_chosen_graph(const GraphChoice& chosen, const F& write) {
  Template t = write(chosen);
  if (chosen.alternative.empty() || !t.is_last_resort()) return t;
  return write({.why = "no schedule for " + chosen.alternative + " is legal"});
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
  return write_template(all_meta_templates(),
                        {dag, apply_options(base, options), options, std::move(source)});
}

Template make_static_template(const ComputeDag& dag, const Target& target,
                              const AutoSchedulerOptions& options) {
  check_options(options);
  const auto source = source_of(options);
  const GraphChoice chosen =
      choose_graph(dag, apply_options(target, options), options, source.get());
  return of_chosen_graph(chosen, [&](const GraphChoice& by) {
    return cached_template(apply_alternative(dag, by.alternative), target, options,
                           with_reduction(source, by), by);
  });
}

Template make_static_template_with(const ComputeDag& dag, const Target& base,
                                   const AutoSchedulerOptions& options,
                                   std::shared_ptr<const ChoiceSource> source) {
  check_options(options);
  const Target target = apply_options(base, options);
  const GraphChoice chosen = choose_graph(dag, target, options, source.get());
  return of_chosen_graph(chosen, [&](const GraphChoice& by) {
    return write_template(all_meta_templates(), {apply_alternative(dag, by.alternative), target,
                                                 options, with_reduction(source, by), by});
  });
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
    Template t = form(a.name);
    if (t.is_last_resort()) continue;
    if (a.name == by.alternative) chosen = forms.size();
    forms.push_back(std::move(t));
  }
  return Template::of_alternatives(forms, chosen);
}

void clear_template_cache() {
  std::list<CacheEntry> dropped;
  std::lock_guard lock(mutex());
  dropped = cache().drop_all();
}

}  // namespace heddle
