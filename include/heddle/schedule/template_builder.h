// Recording a schedule with knobs: what a meta-template writes into.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/schedule/choice.h"
#include "heddle/schedule/knob.h"
#include "heddle/schedule/options.h"
#include "heddle/schedule/schedule.h"
#include "heddle/schedule/stage_group.h"
#include "heddle/target/target.h"

namespace heddle {

class Template;

/// What a Config says to a parameter: a knob's value, or the constant that it is.
using KnobValue = std::function<int64_t(Param)>;

/// What a builder records; with a graph it is a Template. Holds no tensor: one recording serves
/// every graph of the same structure.
struct TemplateRecording {
  /// A step applies only where each of its knobs has the value.
  struct Guard {
    int knob = -1;
    int64_t value = 0;
  };
  struct GuardedStep {
    Step step;
    std::vector<Guard> guards;
  };
  struct Requirement {
    std::string what;
    std::function<bool(const KnobValue&)> ok;
  };
  std::string name;  ///< of the meta-templates used
  Target target;     ///< as the options limit it
  AutoSchedulerOptions options;
  std::vector<Knob> knobs;
  std::vector<GuardedStep> steps;
  std::vector<Requirement> requirements;
  std::vector<std::string> notes;
};

/// Powers of two and divisors of `extent`, up to `limit`.
std::vector<int64_t> split_factors(int64_t extent, int64_t limit);

class TemplateBuilder : public StepRecorder {
 public:
  /// For `target` as the options limit it.
  TemplateBuilder(ComputeDag dag, const Target& target, AutoSchedulerOptions options = {});
  ~TemplateBuilder() override;

  const ComputeDag& dag() const { return dag_; }
  const Target& target() const { return recorded_.target; }
  const AutoSchedulerOptions& options() const { return recorded_.options; }

  /// A knob over `values` (duplicates dropped; `chosen` is added when absent).
  Param knob(const std::string& name, std::vector<int64_t> values, int64_t chosen,
             const std::string& reason = "");
  /// A yes/no knob.
  Param choice(const std::string& name, bool chosen, const std::string& reason = "");
  /// A knob of kinds: value v is called labels[v] in configs, tables and messages. In a Config it
  /// stays the integer. `offered`: those that may be chosen here; empty for all.
  ///   Param reduction = t.kind("reduction", {"whole", "k_blocked", "split_k"}, "whole", reason);
  ///   t.when(reduction, "split_k", [&] { .. });
  Param kind(const std::string& name, std::vector<std::string> labels, const std::string& chosen,
             const std::string& reason = "", const std::vector<std::string>& offered = {});
  Param kind(const std::string& name, std::vector<std::string> labels, int64_t chosen,
             const std::string& reason = "", std::vector<int64_t> offered = {});
  /// The value of a knob of kinds that is called `label`. An internal error where there is none.
  int64_t value_of(Param knob, const std::string& label) const;
  /// Configs may call `knob` by `old_name` too, as records made before it was renamed do. Its
  /// values must mean what they meant.
  void alias(Param knob, const std::string& old_name);
  /// Split factors for an extent: powers of two, divisors and the given extras, up to `limit`.
  Param split_knob(const std::string& name, int64_t extent, int64_t limit, int64_t chosen,
                   const std::string& reason = "");
  /// The same knobs with the default and the reason of `choice`, which has one of that name. What a
  /// ChoiceSource says counts where it is among the values offered, else the rule's choice stands.
  /// The rule of a split_knob chooses from 1 to `extent`.
  Param knob(const std::string& name, std::vector<int64_t> values, const Choice& choice);
  Param choice(const std::string& name, const Choice& choice);
  Param kind(const std::string& name, std::vector<std::string> labels, const Choice& choice,
             std::vector<int64_t> offered = {});
  Param split_knob(const std::string& name, int64_t extent, int64_t limit, const Choice& choice);
  /// What `rule`, a function of `problem`, chooses, with the answer of the ChoiceSource laid over
  /// it, if there is one that knows `heuristic`. `problem` has a member `NamedFeatures features()
  /// const`.
  template <typename Problem, typename Rule>
  Choice decide(std::string_view heuristic, const Problem& problem, const Rule& rule) {
    return with_answer(heuristic, problem.features(), rule(problem));
  }
  /// Steps recorded by `fn` apply only when `knob` has `value`. Nests.
  void when(Param knob, int64_t value, const std::function<void()>& fn);
  void when(Param knob, const std::string& label, const std::function<void()>& fn) {
    when(knob, value_of(knob, label), fn);
  }
  using Value = KnobValue;
  /// Configs for which `ok` is false are rejected before anything is compiled. `what` says why.
  void require(const std::string& what, std::function<bool(const Value&)> ok);
  /// A loop of the group at hand where its tunable stages may be computed; call outermost first.
  /// Inside a when(), the place is only open to configs that take that branch.
  void offer_place(StageRef stage, Loop loop, const std::string& label,
                   StageGroup::Place::Sharing sharing = {}, bool whole_batch = false);
  /// A loop at which the stages that `reader`, an attached reduction, reads element by element may
  /// be computed; `partial` is the stage that the loop belongs to.
  void offer_reader_loop(int reader, StageRef partial, Loop loop, Param location);
  /// The value that the analytic rule chose for `knob`; of a constant, itself.
  int64_t chosen(Param knob) const;
  /// The decision where an attached stage is computed: -1 inlined, 0 root, n: places[n - 1]. The
  /// stages it reads must then be computed no deeper; the dispatcher adds that requirement.
  void set_location(int stage, Param location);
  /// When `knob` has `value`, attached `stage` must be computed at the root: something there reads
  /// it (a packed copy of an operand).
  void keep_at_root(int stage, Param knob, int64_t value) {
    group_.kept.push_back({stage, knob, value});
  }
  /// Adds a line to the template's explanation.
  void note(const std::string& line);

  // ---- for the dispatcher ----
  /// From now on decide() asks `source` (nullptr: the rules alone).
  void consult(std::shared_ptr<const ChoiceSource> source) { source_ = std::move(source); }
  /// Whether a decision so far is a ChoiceSource's.
  bool answered() const { return answered_; }
  /// A new group begins: nothing is offered yet, and its `inlined` stages are gone.
  void begin_group(std::vector<int> inlined);
  /// From here on `meta_template` writes; `prefix` is put before the names of its knobs, so that
  /// those of several groups differ.
  void begin_part(const std::string& meta_template, const std::string& prefix);
  /// What was said since begin_group.
  const GroupPlaces& group() const { return group_; }
  /// The template of all that was recorded. Leaves the builder empty.
  Template finish(std::string name);

 protected:
  void record(Step step) override;
  const ComputeDag& recorded_dag() const override { return dag_; }

 private:
  using Guard = TemplateRecording::Guard;
  Choice with_answer(std::string_view heuristic, const NamedFeatures& features, Choice rule);
  bool names_a_knob(const std::string& full_name) const;
  std::vector<std::pair<Param, int64_t>> open_guards() const;

  ComputeDag dag_;
  TemplateRecording recorded_;
  std::vector<Guard> guards_;                   ///< of the when() at hand
  std::string prefix_, writing_;                ///< of knob names; the meta-template at work
  GroupPlaces group_;                           ///< at hand
  std::shared_ptr<const ChoiceSource> source_;  ///< null: the rules alone
  bool answered_ = false;                       ///< by the source, for some heuristic
};

}  // namespace heddle
