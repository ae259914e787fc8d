// The parts that the functions of steps share: the state, the step, and the checks, whose messages
// name both.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "schedule/steps/schedule_state.h"

namespace heddle {

// The message is built only when the check fails, because replaying a template passes thousands of
// checks.
#define STEP_CHECK(ok, ...) ((ok) ? void() : fail(__VA_ARGS__))

class StepApplier {
 public:
  StepApplier(ScheduleState& s, const Step& step) : s_(s), step_(step) {}

 protected:
  // A limit far above that of real schedules, so that a damaged file cannot exhaust the memory.
  static constexpr int kMaxStages = 1 << 12;

  StageState& stage() { return s_.stages[step_.stage]; }

  // The id of a new stage, which is result number `result`. The stages are resized for it.
  int take_stage_id(size_t result) {
    STEP_CHECK(result < step_.results.size(), "the step names too few results");
    const int id = step_.results[result];
    STEP_CHECK(id >= 0 && id < kMaxStages, "bad result id " + std::to_string(id));
    if (id >= static_cast<int>(s_.stages.size())) s_.stages.resize(static_cast<size_t>(id) + 1);
    STEP_CHECK(!s_.stages[static_cast<size_t>(id)].defined(), "the id of the new stage is taken");
    return id;
  }
  // A root axis of stage `id` with a variable of its own.
  static AxisState root_axis(int id, const std::string& name, AxisKind kind, int64_t extent) {
    AxisState a;
    a.name = name;
    a.kind = kind;
    a.stage = id;
    a.var = Var(name);
    a.extent = Expr(extent);
    a.static_extent = extent;
    return a;
  }

  [[noreturn]] void fail(const std::string& why, const std::string& help = "") const {
    std::string on = step_.stage >= 0 && step_.stage < static_cast<int>(s_.stages.size())
                         ? " to stage '" + s_.stages[step_.stage].name + "'"
                         : "";
    std::string loops = on.empty() ? "" : "\n  loops: " + s_.loops_text(step_.stage);
    throw_user_error(std::string("cannot apply ") + to_string(step_.kind) + on + ": " + why + loops,
                     step_.where, help);
  }

  // Checks the number of axes, parameters and results of the step; -1 = any number. Superfluous
  // ones would be printed and hashed but have no effect.
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

  // Checks that no stage is computed at the loop, which must then stay.
  void check_nothing_inside(int axis) const {
    for (const StageState& st : s_.stages) {
      if (!st.defined() || st.placement != Placement::At) continue;
      STEP_CHECK(st.at_axis != axis && st.store_axis != axis,
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

  // A parameter; check_arity has checked their number.
  int64_t param(size_t i) const { return step_.params[i].value; }
  int axis_arg(size_t i) const { return step_.axes[i]; }

  // Writes the bodies of stage `p` in the place of every load of it in the bodies of `reader`.
  void substitute_bodies(int reader, const StageState& p) {
    rewrite_loads(reader, p.buffers, [&](int component, const std::vector<Expr>& indices) {
      std::vector<VarBinding> bind;
      for (size_t d = 0; d < p.spatial.size(); ++d)
        bind.push_back({s_.axes[static_cast<size_t>(p.spatial[d])].var, indices[d]});
      return substitute(p.bodies[static_cast<size_t>(component)], bind);
    });
  }

  // Rewrites every load of the buffers of `from` in the bodies of `reader`.
  void rewrite_loads(int reader, const std::vector<Buffer>& from,
                     FunctionRef<Expr(int component, const std::vector<Expr>& indices)> to) {
    RewriteMemo memo;
    std::function<Expr(const Expr&)> go;
    const auto rewritten = [&](const Expr& e) -> Expr {
      Expr r = map_children(e, [&](const Expr& c) { return go(c); });
      if (const Load* load = r.as<Load>()) {
        for (size_t c = 0; c < from.size(); ++c) {
          if (from[c] == load->buffer) return to(static_cast<int>(c), load->indices);
        }
      }
      return r;
    };
    go = [&](const Expr& e) { return memo(e, rewritten); };
    StageState& st = s_.stages[reader];
    for (Expr& body : st.bodies) body = go(body);
    if (st.reach.defined()) st.reach = go(st.reach);
  }

  ScheduleState& s_;
  const Step& step_;

 private:
  // A limit far above that of real schedules, so that a damaged file cannot exhaust the memory.
  static constexpr int kMaxAxes = 1 << 16;
};

}  // namespace heddle
