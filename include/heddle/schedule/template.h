// Templates: schedules with knobs. Meta-templates write them (meta_template.h) into a builder
// (template_builder.h); this header includes both.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "heddle/schedule/knob.h"
#include "heddle/schedule/meta_template.h"
#include "heddle/schedule/options.h"
#include "heddle/schedule/schedule.h"
#include "heddle/schedule/stage_group.h"
#include "heddle/schedule/template_builder.h"
#include "heddle/target/target.h"

namespace heddle {

/// A schedule with knobs for one DAG, target and set of options. Immutable; cheap to copy; safe to
/// share.
class Template {
 public:
  /// Makes a template of the recording for `dag`.
  Template(ComputeDag dag, TemplateRecording recorded);
  /// A template of several graphs: the direct one first, then its alternatives, each with a
  /// template of its own. `chosen` is the index of the default.
  static Template of_alternatives(const std::vector<Template>& forms, size_t chosen);

  const std::string& name()
      const;  ///< names of the meta-templates used, such as "complex_reduction"
  const ComputeDag& dag() const { return branches_.front().dag; }
  /// The same template for another DAG of the same structural hash (other tensors).
  Template rebind(const ComputeDag& dag) const;
  /// The target of its schedules, as the options limit it.
  const Target& target() const;
  const AutoSchedulerOptions& options() const;
  const std::vector<Knob>& knobs() const { return *knobs_; }
  std::vector<std::string> notes() const;
  /// The answers of a ChoiceSource that were not taken.
  const std::vector<TemplateRecording::Refusal>& refusals() const;
  /// Whether no choice for the declaration was legal, so that this is the naive schedule.
  bool is_last_resort() const { return branches_.front().recorded->last_resort; }
  /// The source that chose the graph; empty where the estimates of the rules did.
  const std::string& graph_source() const;
  /// A hash of knobs and steps that is stable across runs. Records call it the version.
  uint64_t fingerprint() const;
  /// The index of a knob by its name or a former name; -1 where there is none.
  int knob_index(const std::string& name) const;
  /// The knobs that say how much of the work a task of the threads has, by index: the last cut of each
  /// axis that a parallel loop runs over, registers aside, and the parts of a reduction that are
  /// computed in parallel. Another number of threads wants other values of them.
  std::vector<size_t> task_knobs() const;
  double space_size() const;      ///< product of the knob sizes
  Config default_config() const;  ///< the static choice: the defaults of all knobs
  /// Empty where `config` is legal; otherwise the requirement that it violates.
  std::string why_invalid(const Config& config) const;
  /// The schedule for `config`. Throws an Error where the config is not legal.
  Schedule instantiate(const Config& config) const;
  /// The schedule of the default config, with a provenance that says so. This function defines *the
  /// static choice* for create_schedule, the tuner, networks and reports.
  Schedule static_schedule() const;
  /// The config as JSON: knob name -> value, where a knob of kinds has its label.
  Json config_to_json(const Config& config) const;
  /// Reads a config. Knobs may have their former names, and kinds may be numbers. Knobs that are
  /// left out have their default. Throws an Error for an unknown knob, a knob named twice, or an
  /// illegal config.
  Config config_from_json(const Json& json) const;
  std::string to_text() const;  ///< the guarded steps and the knobs as text

  /// A template of several graphs (make_template_of_alternatives) has a branch for each, the direct
  /// one first. The knob "alternative" selects the branch; the knobs of all branches follow it. Any
  /// other template is its own only branch.
  int num_branches() const;
  Template branch(int i) const;
  /// The branch of an alternative ("" is the direct form); -1 where there is none.
  int find_branch(const std::string& alternative) const;
  int branch_of(const Config& config) const;
  /// The part of `config` for its branch.
  Config config_in_branch(const Config& config) const;
  /// The config of this template that selects branch `i` with `config`.
  Config config_of_branch(int i, const Config& config) const;
  /// The branch that a knob belongs to; -1 for the knob "alternative" itself.
  int branch_of_knob(size_t knob) const;

 private:
  struct Branch {
    ComputeDag dag;
    std::shared_ptr<const TemplateRecording> recorded;
    size_t first_knob = 0;  ///< the index of its first knob among all knobs
    const std::string& alternative() const { return dag.alternative(); }
  };
  Template(ComputeDag dag, std::shared_ptr<const TemplateRecording> recorded);
  bool has_alternatives() const { return branches_.size() > 1; }
  const Branch& branch_at(int i) const;
  static std::string text_of(const Branch& branch);

  std::vector<Branch> branches_;  ///< at least one; the first is the graph that it was made for
  std::shared_ptr<const std::vector<Knob>> knobs_;
};

}  // namespace heddle
