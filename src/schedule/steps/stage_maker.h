// The part that the steps that make a stage share: the new stage, with axes like those of the old
// one.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "schedule/steps/step_applier.h"

namespace heddle {

class StageMaker : public StepApplier {
 public:
  using StepApplier::StepApplier;

 protected:
  // Checks that the reduction can move to a new stage: its loops must not have been changed yet.
  // Spatial loops may have been.
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
    const int id = take_stage_id(0);
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
};

void apply_rfactor_step(ScheduleState& state, const Step& step);
void apply_pad_step(ScheduleState& state, const Step& step);

}  // namespace heddle
