// What applying any step needs: the stage and axes it names, checks with messages, new axes and
// stages. Private to the files that apply steps.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "heddle/support/error.h"
#include "schedule/schedule_state.h"

namespace heddle {

// Far beyond any schedule; what a damaged file names must not exhaust the memory.
inline constexpr int kMaxAxes = 1 << 16, kMaxStages = 1 << 12;
inline constexpr int64_t kMaxTile = int64_t{1} << 31;

// The message is put together only when the check fails: replaying a template passes thousands.
#define STEP_CHECK(ok, ...) ((ok) ? void() : fail(__VA_ARGS__))

class StepContext {
 public:
  StepContext(ScheduleState& s, const Step& step) : s_(s), step_(step) {}

 protected:
  StageState& stage() { return s_.stages[step_.stage]; }

  [[noreturn]] void fail(const std::string& why, const std::string& help = "") const {
    std::string on = step_.stage >= 0 && step_.stage < static_cast<int>(s_.stages.size())
                         ? " to stage '" + s_.stages[step_.stage].name + "'"
                         : "";
    std::string loops = on.empty() ? "" : "\n  loops: " + s_.loops_text(step_.stage);
    throw_user_error(std::string("cannot apply ") + to_string(step_.kind) + on + ": " + why + loops,
                     step_.where, help);
  }

  // How many axes, parameters and results the step must have; -1 = any number. What is left over
  // would be printed and counted, but never looked at.
  void check_arity() const {
    const StepArity arity = arity_of(step_.kind);
    auto expect = [&](int want, size_t got, const char* what) {
      STEP_CHECK(want < 0 || static_cast<size_t>(want) == got,
                 "the step has " + std::to_string(got) + " " + what + " in place of " +
                     std::to_string(want));
    };
    expect(arity.axes, step_.axes.size(), "axes");
    expect(arity.params, step_.params.size(), "parameters");
    expect(arity.results, step_.results.size(), "results");
  }
  // The results of a step that makes a stage: the stage, then its axes.
  void check_results(size_t axes) const {
    STEP_CHECK(step_.results.size() == 1 + axes,
               "the step has " + std::to_string(step_.results.size()) + " results in place of " +
                   std::to_string(1 + axes));
  }

  void check_computes() {
    STEP_CHECK(!stage().placeholder, "it is an input, nothing computes it");
    STEP_CHECK(stage().placement != Placement::Inlined, "it was inlined");
  }

  // The axis `id`, which must be a loop of the step's stage.
  AxisState& leaf(int id) {
    STEP_CHECK(id >= 0 && id < static_cast<int>(s_.axes.size()) && s_.axes[id].defined,
               "axis " + std::to_string(id) + " does not exist");
    AxisState& a = s_.axes[id];
    STEP_CHECK(a.stage == step_.stage,
               "axis '" + a.name + "' belongs to stage '" + s_.stages[a.stage].name + "'");
    if (!a.is_leaf()) {
      std::string how = a.split_outer >= 0 ? "split" : "fused";
      std::string line = a.consumed_at.line ? " at line " + std::to_string(a.consumed_at.line) : "";
      STEP_CHECK(false, "axis '" + a.name + "' was " + how + line,
                 "use one of the loops that are left");
    }
    STEP_CHECK(s_.leaf_position(id) >= 0, "axis '" + a.name + "' is no loop of it any more");
    return a;
  }

  // A loop at which a stage is computed must stay.
  void check_nothing_inside(int axis) const {
    for (const StageState& st : s_.stages) {
      STEP_CHECK(!st.defined() || st.placement != Placement::At || st.at_axis != axis,
                 "stage '" + st.name + "' is computed at axis '" + s_.axes[axis].name + "'",
                 "shape the loops first, then place stages in them");
    }
  }

  int new_axis(size_t result, AxisState a) {
    STEP_CHECK(result < step_.results.size(), "the step names too few results");
    int id = step_.results[result];
    STEP_CHECK(id >= 0 && id < kMaxAxes, "bad result id " + std::to_string(id));
    if (id >= static_cast<int>(s_.axes.size())) s_.axes.resize(id + 1);
    STEP_CHECK(!s_.axes[id].defined, "result id " + std::to_string(id) + " is taken");
    a.defined = true;
    s_.axes[id] = std::move(a);
    return id;
  }

  // There are as many as check_arity found.
  int64_t param(size_t i) const { return step_.params[i].value; }
  int axis_arg(size_t i) const { return step_.axes[i]; }

  // The reduction moves to a new stage: its loops must not have been shaped yet. Spatial loops may.
  void check_reduce_untouched(const std::string& what) {
    for (int id : stage().reduce) {
      STEP_CHECK(s_.axes[id].is_leaf() && s_.axes[id].loop == LoopKind::Serial,
                 "reduce axis '" + s_.axes[id].name + "' was split, fused or annotated before",
                 what + " comes first");
      check_nothing_inside(id);
    }
  }
  void drop_reduce_leaves(StageState* st) const {
    std::erase_if(st->leaves, [&](int id) { return s_.axes[id].kind == AxisKind::Reduce; });
  }

  std::vector<Expr> shape_of(const std::vector<int>& axes) const {
    std::vector<Expr> shape;
    for (int id : axes) shape.emplace_back(s_.axes[id].static_extent);
    return shape;
  }

  // A new stage with id results[0]; its axes, copies of `spatial` and `reduce` with fresh
  // variables, take the ids from results[1] on. `bind` receives old variable -> new variable. By
  // value: the stages move when one is added.
  // NOLINTNEXTLINE(performance-unnecessary-value-param)
  StageState& new_stage(const std::string& name, std::vector<int> spatial, std::vector<int> reduce,
                        std::vector<VarBinding>* bind) {
    STEP_CHECK(!step_.results.empty(), "the step names too few results");
    int id = step_.results[0];
    STEP_CHECK(id >= 0 && id < kMaxStages, "bad result id " + std::to_string(id));
    if (id >= static_cast<int>(s_.stages.size())) s_.stages.resize(id + 1);
    STEP_CHECK(!s_.stages[id].defined(), "the id of the new stage is taken");
    StageState st;
    st.name = name;
    size_t next = 1;
    auto copy = [&](int from) {
      AxisState a;
      const AxisState& old = s_.axes[from];
      a.name = old.name;
      a.kind = old.kind;
      a.stage = id;
      a.var = Var(old.name);
      a.extent = old.extent;
      a.static_extent = old.static_extent;
      bind->push_back({old.var, a.var});
      return new_axis(next++, std::move(a));
    };
    for (int a : spatial) st.spatial.push_back(copy(a));
    for (int a : reduce) st.reduce.push_back(copy(a));
    for (int a : st.reduce) s_.axes[a].extent = substitute(s_.axes[a].extent, *bind);
    st.leaves = st.spatial;
    st.leaves.insert(st.leaves.end(), st.reduce.begin(), st.reduce.end());
    s_.stages[id] = std::move(st);
    return s_.stages[id];
  }

  // The bodies with their variables renamed; Reduce nodes get axes over the new variables.
  std::vector<Expr> renamed_bodies(const std::vector<Expr>& bodies,
                                   const std::vector<VarBinding>& bind) const {
    std::vector<Expr> out;
    for (const Expr& b : bodies) out.push_back(substitute(b, bind));
    return out;
  }

  std::vector<Expr> axis_vars(const std::vector<int>& axes) const {
    std::vector<Expr> out;
    for (int id : axes) out.push_back(s_.axes[id].var);
    return out;
  }

  ScheduleState& s_;
  const Step& step_;
};

/// StepKind::Rfactor, the longest of them.
void apply_rfactor(ScheduleState& state, const Step& step);

}  // namespace heddle
