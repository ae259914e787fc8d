// Meta-templates: their registry, and the dispatch of a graph's groups to them.
//
// A meta-template writes the schedule of a group of stages *once* and declares a knob for each
// decision. The result is recorded as a Template. Applying a Config is then a replay of steps,
// which takes microseconds and does not run the meta-template again.
//
//   void build(TemplateBuilder& t, const StageGroup& g) {
//     StageRef c = t.stage(g.output_stage);
//     Param tile = t.knob("tile", {8, 16, 32}, 16, "two native vectors");
//     auto [o, i] = c.split(c.axis(-1), tile);
//     c.vectorize(i);
//     Param par = t.choice("parallel", true, "enough rows for every core");
//     t.when(par, 1, [&] { c.parallel(c.axis(0)); });
//   }
//   HEDDLE_REGISTER_META_TEMPLATE({"my_template", /*priority=*/10, matches, build});
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/schedule/options.h"
#include "heddle/schedule/stage_group.h"
#include "heddle/target/target.h"

namespace heddle {

class ChoiceSource;
class Template;
class TemplateBuilder;

/// A meta-template: which groups it takes, and how it writes their schedule.
struct MetaTemplate {
  std::string name;
  int priority = 0;  ///< the matching one of highest priority wins; built-in ones have 0
  std::function<bool(const ComputeDag&, const StageGroup&, const Target&)> matches;
  std::function<void(TemplateBuilder&, const StageGroup&)> build;
};
/// Registers a meta-template for the life of the process and returns true. Registering a name twice
/// is an internal error.
bool register_meta_template(MetaTemplate t);
/// Removes a meta-template, for tests and for plug-ins that are unloaded.
void unregister_meta_template(const std::string& name);
/// The names of all registered meta-templates.
std::vector<std::string> meta_template_names();

#define HEDDLE_REGISTER_META_TEMPLATE(...)                                                     \
  HEDDLE_REGISTER_META_TEMPLATE_AS(HEDDLE_JOIN(heddle_registered_meta_template_, __COUNTER__), \
                                   __VA_ARGS__)
#define HEDDLE_REGISTER_META_TEMPLATE_AS(name, ...) \
  [[maybe_unused]] static const bool name = ::heddle::register_meta_template(__VA_ARGS__)
#define HEDDLE_JOIN(a, b) HEDDLE_JOIN_EXPANDED(a, b)
#define HEDDLE_JOIN_EXPANDED(a, b) a##b

/// Groups the DAG, lets the matching meta-template of each group write its part, and returns the
/// result. It is cached by structural hash, target and options (see `clear_template_cache`). The
/// default for `options` is those of this thread's scope.
Template make_template(const ComputeDag& dag, const Target& target,
                       const AutoSchedulerOptions& options = current_auto_scheduler_options());
/// Removes all cached templates, for tests and benchmarks.
void clear_template_cache();

/// The template in which `source` answers in place of the installed one (null: the rules alone). It
/// is not cached. Use it to try out choices: where an answer is not legal the rules decide, and the
/// template's notes say so.
Template make_template_with(const ComputeDag& dag, const Target& target,
                            const AutoSchedulerOptions& options,
                            std::shared_ptr<const ChoiceSource> source);

/// The template of the graph with the best estimate: `dag`, or an alternative that the options
/// allow. Its static_schedule() is the static choice for `dag`.
Template make_static_template(
    const ComputeDag& dag, const Target& target,
    const AutoSchedulerOptions& options = current_auto_scheduler_options());

/// One template for `dag` and every alternative of it that the options allow. The graph is one more
/// decision. Its default is the graph with the best estimate, so the static choice equals that of
/// make_static_template.
Template make_template_of_alternatives(
    const ComputeDag& dag, const Target& target,
    const AutoSchedulerOptions& options = current_auto_scheduler_options());

}  // namespace heddle
