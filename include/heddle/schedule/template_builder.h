// TemplateBuilder: records the schedule with knobs that a meta-template writes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
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

/// The value of a parameter under a Config: the value of a knob, or a constant.
using KnobValue = std::function<int64_t(Param)>;

/// The recording of a builder. Together with a graph it is a Template. It holds no tensor, so one
/// recording serves every graph of the same structure.
struct TemplateRecording {
  /// An answer of a ChoiceSource that was not taken.
  struct Refusal {
    std::string source;  ///< Choice::source of the answer; empty: all answers together
    std::string why;     ///< as one sentence
  };
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
  std::string name;  ///< names of the meta-templates used
  Target target;     ///< as the options limit it
  AutoSchedulerOptions options;
  std::vector<Knob> knobs;
  std::vector<GuardedStep> steps;
  std::vector<Requirement> requirements;
  std::vector<std::string> notes;
  std::vector<Refusal> refusals;  ///< each is among the notes too
  std::string graph_source;       ///< what chose the graph; empty: the estimates of the rules
  bool last_resort = false;       ///< nothing that was chosen is legal: this is the naive schedule
};

/// Powers of two and divisors of `extent`, up to `limit`.
std::vector<int64_t> split_factors(int64_t extent, int64_t limit);

/// Records the steps and knobs that a meta-template writes.
class TemplateBuilder : public StepRecorder {
 public:
  /// A builder for `target` as the options limit it.
  TemplateBuilder(ComputeDag dag, const Target& target, AutoSchedulerOptions options = {});
  ~TemplateBuilder() override;

  const ComputeDag& dag() const { return dag_; }
  const Target& target() const { return recorded_.target; }
  const AutoSchedulerOptions& options() const { return recorded_.options; }
  /// The constants of rules (heddle/target/rule_constants.h), which problems carry to their rules.
  const RuleConstants& constants() const { return *constants_; }

  /// A knob over `values`. Duplicates are dropped, and `chosen` is added when absent.
  Param knob(const std::string& name, std::vector<int64_t> values, int64_t chosen,
             const std::string& reason = "");
  /// A yes/no knob.
  Param choice(const std::string& name, bool chosen, const std::string& reason = "");
  /// A knob of kinds: labels[v] is the name of value v in JSON, tables and messages. A Config holds
  /// the integer. `offered` are the values that may be chosen here; empty for all.
  ///   Param reduction = t.kind("reduction", {"whole", "k_blocked", "split_k"}, "whole", reason);
  ///   t.when(reduction, "split_k", [&] { .. });
  Param kind(const std::string& name, std::vector<std::string> labels, const std::string& chosen,
             const std::string& reason = "", const std::vector<std::string>& offered = {});
  Param kind(const std::string& name, std::vector<std::string> labels, int64_t chosen,
             const std::string& reason = "", std::vector<int64_t> offered = {});
  /// The value of a knob of kinds with this label. Throws an internal error where there is none.
  int64_t value_of(Param knob, const std::string& label) const;
  /// Lets configs name `knob` by `old_name` too, as records from before a renaming do. The meaning
  /// of its values must not have changed.
  void alias(Param knob, const std::string& old_name);
  /// Split factors for an extent: powers of two, divisors and the given extras, up to `limit`.
  Param split_knob(const std::string& name, int64_t extent, int64_t limit, int64_t chosen,
                   const std::string& reason = "");
  /// The same knobs with the default and the reason from `choice`, which names them. An answer of a
  /// ChoiceSource is used where it is one of the allowed values, else the choice of the rule. The
  /// rule of a split_knob chooses from 1 to `extent`.
  Param knob(const std::string& name, std::vector<int64_t> values, const Choice& choice);
  Param choice(const std::string& name, const Choice& choice);
  Param kind(const std::string& name, std::vector<std::string> labels, const Choice& choice,
             std::vector<int64_t> offered = {});
  /// A knob of kinds with the labels of Choice::set_kind.
  Param kind(const std::string& name, const Choice& choice, std::vector<int64_t> offered = {});
  Param split_knob(const std::string& name, int64_t extent, int64_t limit, const Choice& choice);
  /// The choice of `rule`, a function of `problem`, overlaid by the answer of the ChoiceSource
  /// where it has one for `heuristic`. `problem` has a member `NamedFeatures features() const`. A
  /// rule with a second argument gets the answer.
  template <typename Problem, typename Rule>
  Choice decide(std::string_view heuristic, const Problem& problem, const Rule& rule) {
    constexpr bool kTold = std::is_invocable_v<const Rule&, const Problem&, const Choice&>;
    const auto choose = [&](const Choice& given) {
      if constexpr (kTold)
        return rule(problem, given);
      else
        return rule(problem);
    };
    const Choice alone = choose(Choice());
    if (!source_) return alone;
    const std::optional<Choice> answer = ask_source(heuristic, problem.features(), alone);
    return answer ? overlaid(heuristic, choose(*answer), *answer) : alone;
  }
  /// Steps recorded by `fn` apply only when `knob` has `value`. Calls may be nested.
  void when(Param knob, int64_t value, const std::function<void()>& fn);
  void when(Param knob, const std::string& label, const std::function<void()>& fn) {
    when(knob, value_of(knob, label), fn);
  }
  using Value = KnobValue;
  /// Configs for which `ok` is false are rejected before anything is compiled. `what` is the
  /// message.
  void require(const std::string& what, std::function<bool(const Value&)> ok);
  /// Offers a loop of the current group at which its tunable stages may be computed. Call it for
  /// the outermost loop first. Inside a when(), the place is available only to configs that take
  /// that branch.
  void offer_place(StageRef stage, Loop loop, const std::string& label,
                   StageGroup::Place::Sharing sharing = {}, bool whole_batch = false);
  /// Offers a loop at which stages that `reader`, an attached reduction, reads element by element
  /// may be computed. `partial` is the stage that the loop belongs to.
  void offer_reader_loop(int reader, StageRef partial, Loop loop, Param location);
  /// The default of `knob`; for a constant, the constant.
  int64_t chosen(Param knob) const;
  /// Sets the knob of the location of an attached stage: -1 inlined, 0 root, n: places[n - 1]. The
  /// stages that it reads must then not be computed deeper; the dispatcher adds that requirement.
  void set_location(int stage, Param location);
  /// When `knob` has `value`, attached `stage` must be computed at the root, because a stage there
  /// reads it (a packed copy of an operand).
  void keep_at_root(int stage, Param knob, int64_t value) {
    group_.kept.push_back({stage, knob, value});
  }
  /// Adds a line to the template's explanation.
  void note(const std::string& line);
  /// Adds the line `refusal.why`, and keeps the refusal for Template::refusals.
  void refuse(TemplateRecording::Refusal refusal);

  // ---- for the dispatcher ----
  /// From now on decide() asks `source` (nullptr: the rules alone), and rules judge by its
  /// constants.
  void consult(std::shared_ptr<const ChoiceSource> source);
  /// Whether any decision so far came from a ChoiceSource.
  bool answered() const { return answered_; }
  /// Names the source that chose the graph (Template::graph_source).
  void set_graph_source(std::string source) { recorded_.graph_source = std::move(source); }
  /// Begins a new group, without places so far. Its `inlined` stages need no place.
  void begin_group(std::vector<int> inlined);
  /// From here on `meta_template` writes. `prefix` is prepended to the names of its knobs, so that
  /// those of several groups differ.
  void begin_part(const std::string& meta_template, const std::string& prefix);
  /// The places and decisions since begin_group.
  const GroupPlaces& group() const { return group_; }
  /// The template of the whole recording. Leaves the builder empty.
  Template finish(std::string name);
  /// The same for the naive schedule where nothing else is legal.
  Template finish_as_last_resort(std::string name);

 protected:
  void record(Step step) override;
  const ComputeDag& recorded_dag() const override { return dag_; }

 private:
  using Guard = TemplateRecording::Guard;
  std::optional<Choice> ask_source(std::string_view heuristic, const NamedFeatures& features,
                                   const Choice& rule);
  Choice overlaid(std::string_view heuristic, Choice rule, const Choice& answer);
  bool names_a_knob(const std::string& full_name) const;
  std::vector<std::pair<Param, int64_t>> open_guards() const;

  ComputeDag dag_;
  TemplateRecording recorded_;
  std::vector<Guard> guards_;                   ///< of the open when() calls
  std::string prefix_, writing_;                ///< prefix of knob names; the current meta-template
  GroupPlaces group_;                           ///< the current group
  std::shared_ptr<const ChoiceSource> source_;  ///< null: the rules alone
  std::shared_ptr<const RuleConstants> constants_;  ///< never null
  bool answered_ = false;  ///< whether the source answered for some heuristic
};

}  // namespace heddle
