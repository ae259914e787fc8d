// Templates: schedules with knobs, and the meta-templates that write them.
//
// A meta-template is given a group of stages and writes a schedule *once*, asking for decisions as
// it goes; what it wrote is recorded as a Template. Filling in a Config is then a replay of steps:
// microseconds, without running the meta-template again.
//
//   void build(TemplateBuilder& t, const StageGroup& g) {
//     StageRef c = t.stage(g.output stage);
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

#include "heddle/schedule/choice.h"
#include "heddle/schedule/knob.h"
#include "heddle/schedule/options.h"
#include "heddle/schedule/schedule.h"
#include "heddle/target/target.h"

namespace heddle {

/// Stages that one meta-template schedules together: one loop nest at the root.
struct StageGroup {
  int output_stage = -1;  ///< materialised at the root; its loops are the group's
  int anchor = -1;  ///< the reduction computed inside the output stage (may be the output stage
                    ///< itself), or the output stage
  StageClass anchor_class = StageClass::DirectCompute;
  /// non-anchor stages between the anchor and output stage, and producers read by the group alone,
  /// whose place is to be decided (location-tunable stages and reductions computed per row of the
  /// output stage).
  std::vector<int> inlined;  ///< always substituted into their readers
  std::vector<int>
      tunable;  ///< in topological order; scheduled after the output stage, as attached groups
  /// Operands of the anchor that are mere changes of index (transpositions). They are substituted
  /// too, but after the meta-templates have written: a copy packed from one is computed from its
  /// source.
  std::vector<int> operands;
  /// Of the tunable stages, those whose rows are the rows of the anchor, one to one, behind which
  /// there is another product: a block of rows goes through all of them while it is in cache
  /// (attention).
  std::vector<int> chain;
  std::string reason;
  /// A attached group is one tunable stage of another group: it may be computed at any of the loops
  /// that the host offered, outermost first, or at the root.
  struct Place {
    int stage = -1;
    Loop loop;
    std::string label;
    /// The decisions under which the loop exists: (knob, value), all of which must hold.
    std::vector<std::pair<Param, int64_t>> needs = {};
    /// On a GPU: the threads of a block share the innermost axis below the loop, vector by vector
    /// in turn; a stage that does the same keeps its elements in registers. No options: what is
    /// computed there runs in one thread.
    struct Sharing {
      Param threads = {};                 ///< how many,
      std::vector<int64_t> options = {};  ///< of these
      int64_t vector = 1;                 ///< elements at a time
      Param unroll = {};                  ///< vectors under way, where a row is read from memory
      Param resident = {};                ///< 1: the row stays in registers, its loops unrolled
    };
    Sharing sharing = {};
    /// An iteration has all rows of a batch: what is copied for it is copied once.
    bool whole_batch = false;
  };
  /// A loop of a attached reduction that goes over the elements of a row one after the other: a
  /// stage that it reads may be computed there as it is read, and kept for others (store_at).
  struct ReaderLoop {
    int reader = -1;  ///< the reduction,
    int stage = -1;   ///< the stage of its partial results,
    Loop loop;        ///< and a loop of that
    Param location;   ///< where the reduction is computed: the stage must be there too
    /// The decisions under which the loop exists: (knob, value), all of which must hold.
    std::vector<std::pair<Param, int64_t>> needs = {};
  };
  /// Of a attached group: where it may be computed like that.
  std::vector<ReaderLoop> reader_loops = {};
  bool attached = false;
  bool in_chain = false;  ///< attached: one of the host's chain
  /// Products of f32 may round their operands to tf32 (AutoSchedulerOptions::allow_tf32).
  bool allow_tf32 = false;
  /// The deepest place (index + 1 into places) that the readers' own default places allow.
  int deepest = 0;
  std::vector<Place> places;
};

/// The groups of a DAG, producers first. Deterministic. Without a target, or with one that is no
/// CPU, no group has a chain.
std::vector<StageGroup> plan_groups(const ComputeDag& dag, const Target* target = nullptr);

class Template;
struct MetaTemplate;

/// Powers of two and divisors of `extent`, up to `limit`.
std::vector<int64_t> split_factors(int64_t extent, int64_t limit);

class TemplateBuilder : public StepRecorder {
 public:
  /// For `target` as the options limit it.
  TemplateBuilder(ComputeDag dag, const Target& target, AutoSchedulerOptions options = {});
  ~TemplateBuilder() override;

  const ComputeDag& dag() const { return dag_; }
  const Target& target() const { return target_; }
  const AutoSchedulerOptions& options() const { return options_; }

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
  /// From now on decide() asks `source` (nullptr: the rules alone).
  void consult(std::shared_ptr<const ChoiceSource> source) { source_ = std::move(source); }
  /// Whether a decision so far is a ChoiceSource's.
  bool answered() const { return answered_; }
  /// Steps recorded by `fn` apply only when `knob` has `value`. Nests.
  void when(Param knob, int64_t value, const std::function<void()>& fn);
  void when(Param knob, const std::string& label, const std::function<void()>& fn) {
    when(knob, value_of(knob, label), fn);
  }
  /// Configs for which `ok` is false are rejected before anything is compiled. `what` says why.
  using Value = std::function<int64_t(Param)>;
  void require(const std::string& what, std::function<bool(const Value&)> ok);
  /// A loop of the group at hand where its tunable stages may be computed; call outermost first.
  /// Inside a when(), the place is only open to configs that take that branch.
  void offer_place(StageRef stage, Loop loop, const std::string& label,
                   StageGroup::Place::Sharing sharing = {}, bool whole_batch = false);
  /// A loop at which the stages that `reader`, a attached reduction, reads element by element may
  /// be computed; `partial` is the stage that the loop belongs to.
  void offer_reader_loop(int reader, StageRef partial, Loop loop, Param location);
  /// The value that the analytic rule chose for `knob`; of a constant, itself.
  int64_t chosen(Param knob) const;
  /// The decision where a attached stage is computed: -1 inlined, 0 root, n: places[n - 1]. The
  /// stages it reads must then be computed no deeper; the dispatcher adds that requirement.
  void set_location(int stage, Param location);
  /// When `knob` has `value`, attached `stage` must be computed at the root: something there reads
  /// it (a packed copy of an operand).
  void keep_at_root(int stage, Param knob, int64_t value) { kept_.push_back({stage, knob, value}); }
  /// Adds a line to the template's explanation.
  void note(const std::string& line);
  /// Prefix for the names of knobs (one group of several); set by the dispatcher.
  void set_prefix(std::string prefix) { prefix_ = std::move(prefix); }

  Template finish(std::string name);

 protected:
  void record(Step step) override;
  const ComputeDag& recorded_dag() const override { return dag_; }

 private:
  friend class Template;
  bool names_a_knob(const std::string& full_name) const;
  Choice with_answer(std::string_view heuristic, const NamedFeatures& features, Choice rule);
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
    std::function<bool(const Value&)> ok;
  };
  ComputeDag dag_;
  Target target_;
  AutoSchedulerOptions options_;
  std::vector<Knob> knobs_;
  std::vector<GuardedStep> steps_;
  std::vector<Guard> guards_;
  std::vector<Requirement> requirements_;
  std::vector<std::string> notes_;
  std::string prefix_, writing_;                ///< of knob names; the meta-template at work
  std::shared_ptr<const ChoiceSource> source_;  ///< null: the rules alone
  bool answered_ = false;                       ///< by the source, for some heuristic
  std::vector<StageGroup::Place> places_;
  std::vector<StageGroup::ReaderLoop> reader_loops_;
  std::vector<std::pair<int, Param>> locations_;  ///< stage, decision
  friend Template write_template(const std::vector<MetaTemplate>&, const ComputeDag&, const Target&,
                                 const AutoSchedulerOptions&,
                                 const std::shared_ptr<const ChoiceSource>&, const std::string&);
  std::vector<int> inlined_;  ///< of the group at hand
  struct KeptAtRoot {
    int stage = -1;
    Param knob;
    int64_t value = 0;
  };
  std::vector<KeptAtRoot> kept_;
  friend void require_enclosing(TemplateBuilder&, const ComputeDag&, int);
  friend const Param* location_of(const TemplateBuilder&, int);
  friend std::vector<StageGroup::ReaderLoop> reader_loops_of(const TemplateBuilder&,
                                                             const ComputeDag&, int);
  friend int deepest_default(const TemplateBuilder&, const ComputeDag&, int);
  friend StageGroup attached_group(const TemplateBuilder&, const ComputeDag&, const StageGroup&,
                                   int);
  friend bool read_through_located(const TemplateBuilder&, const ComputeDag&, int, int);
};

/// A schedule with knobs for one DAG, target and set of options. Immutable; cheap to copy; safe to
/// share.
class Template {
 public:
  const std::string& name() const;  ///< of the meta-templates used, e.g. "complex_reduction"
  const ComputeDag& dag() const { return dag_; }
  /// The same template for another DAG of the same structural hash (other tensors).
  Template rebind(const ComputeDag& dag) const;
  /// As the options limit it. Its schedules are for it.
  const Target& target() const;
  const AutoSchedulerOptions& options() const;
  const std::vector<Knob>& knobs() const;
  const std::vector<std::string>& notes() const;
  /// Stable across runs; differs when the knobs or the steps do. What records call the version.
  uint64_t fingerprint() const;
  /// By its name or one that it had before; -1 when absent.
  int knob_index(const std::string& name) const;
  double space_size() const;      ///< product of the knob sizes
  Config default_config() const;  ///< the static choice: what the analytic rules say
  /// Empty when `config` is legal, else the requirement it breaks.
  std::string why_invalid(const Config& config) const;
  /// The schedule for `config`. Throws an Error when it is not legal.
  Schedule instantiate(const Config& config) const;
  /// That of the default config; its provenance says so. Whoever means *the static choice* asks
  /// this: create_schedule, the tuner, a network, reports.
  Schedule static_schedule() const;
  /// Knob name -> value; a knob of kinds by its label.
  Json config_to_json(const Config& config) const;
  /// Knobs may be called by their old names, kinds by their numbers. What is left out has its
  /// default. Throws an Error for a knob that there is not, one named twice, or an illegal config.
  Config config_from_json(const Json& json) const;
  std::string to_text() const;  ///< the guarded steps and the knobs, for people

  /// A template of several graphs (make_template_of_alternatives) has a branch for each, the direct
  /// one first; a knob "alternative" says which, the others are those of the branches, one after
  /// the other. Any other template is its own only branch.
  int num_branches() const;
  const Template& branch(int i) const;
  /// By the name of the alternative ("" is the direct form); -1 when there is none.
  int find_branch(const std::string& alternative) const;
  int branch_of(const Config& config) const;
  /// What `config` says to its branch.
  Config config_in_branch(const Config& config) const;
  /// The config here that says `config` to branch `i`.
  Config config_of_branch(int i, const Config& config) const;
  /// The branch that a knob belongs to; -1: the choice itself.
  int branch_of_knob(size_t knob) const;

 private:
  friend Template make_template_of_alternatives(const ComputeDag&, const Target&,
                                                const AutoSchedulerOptions&);
  friend class TemplateBuilder;
  struct Impl;
  Template(ComputeDag dag, std::shared_ptr<const Impl> impl)
      : dag_(std::move(dag)), impl_(std::move(impl)) {}
  ComputeDag dag_;
  std::shared_ptr<const Impl> impl_;
};

/// A meta-template: which groups it takes, and how it writes their schedule.
struct MetaTemplate {
  std::string name;
  int priority = 0;  ///< the highest that matches wins; ours are at 0
  std::function<bool(const ComputeDag&, const StageGroup&, const Target&)> matches;
  std::function<void(TemplateBuilder&, const StageGroup&)> build;
};
/// Registers for the life of the process; returns true. Two of one name is an internal error.
bool register_meta_template(MetaTemplate t);
/// For tests and plug-ins that come and go.
void unregister_meta_template(const std::string& name);
std::vector<std::string> meta_template_names();

#define HEDDLE_REGISTER_META_TEMPLATE(...)                                                     \
  HEDDLE_REGISTER_META_TEMPLATE_AS(HEDDLE_JOIN(heddle_registered_meta_template_, __COUNTER__), \
                                   __VA_ARGS__)
#define HEDDLE_REGISTER_META_TEMPLATE_AS(name, ...) \
  [[maybe_unused]] static const bool name = ::heddle::register_meta_template(__VA_ARGS__)
#define HEDDLE_JOIN(a, b) HEDDLE_JOIN_EXPANDED(a, b)
#define HEDDLE_JOIN_EXPANDED(a, b) a##b

/// Groups the DAG, lets the matching meta-template of each group write its part, and returns the
/// result. Cached by structural hash, target and options (see `clear_template_cache`). `options`:
/// those of this thread's scope, if nothing else is said.
Template make_template(const ComputeDag& dag, const Target& target,
                       const AutoSchedulerOptions& options = current_auto_scheduler_options());
void clear_template_cache();

/// The template of the graph that promises most: `dag`, or an alternative that the options allow.
/// Its static_schedule() is the static choice for `dag`.
Template make_static_template(
    const ComputeDag& dag, const Target& target,
    const AutoSchedulerOptions& options = current_auto_scheduler_options());

/// The template of `dag` and of every alternative of it that the options allow, as one: which graph
/// is a decision like any other. By default it is the one that promises most: the static choice is
/// that of make_static_template.
Template make_template_of_alternatives(
    const ComputeDag& dag, const Target& target,
    const AutoSchedulerOptions& options = current_auto_scheduler_options());

}  // namespace heddle
