// The steps that make copies of stages, cache_write and cache_read.
#include "schedule/steps/stage_maker.h"

namespace heddle {
namespace {

class CopySteps : public StageMaker {
 public:
  using StageMaker::StageMaker;

  void cache_write() {
    check_computes();
    check_reduce_untouched("cache_write");
    check_results(stage().spatial.size() + stage().reduce.size());
    std::vector<VarBinding> bind;
    StageState& st = new_stage(stage().name + ".local", stage().spatial, stage().reduce, &bind);
    StageState& c = stage();
    st.bodies = renamed_bodies(c.bodies, bind);
    for (const Buffer& b : c.buffers) {
      st.buffers.push_back(Buffer::make(b->name + ".local", b->dtype, b->shape, Scope::Local));
    }
    c.bodies.clear();
    for (const Buffer& b : st.buffers) c.bodies.push_back(make_load(b, axis_vars(c.spatial)));
    c.reduce.clear();
    drop_reduce_leaves(&c);
  }

  void cache_read() {
    STEP_CHECK(stage().placement != Placement::Inlined, "it was inlined");
    check_results(stage().spatial.size());
    for (size_t i = 0; i < step_.params.size(); ++i) {
      int64_t reader = param(i);
      STEP_CHECK(reader >= 0 && reader < static_cast<int64_t>(s_.stages.size()) &&
                     s_.stages[reader].defined(),
                 "there is no such reader");
    }
    check_along();
    std::vector<VarBinding> bind;
    StageState& st = new_stage(stage().name + ".copy", stage().spatial, {}, &bind);
    StageState& p = stage();
    st.constant = false;
    for (const Buffer& b : p.buffers) {
      st.buffers.push_back(Buffer::make(b->name + ".copy", b->dtype, b->shape, Scope::Global));
      st.bodies.push_back(make_load(b, axis_vars(st.spatial)));
    }
    for (size_t i = 0; i < step_.params.size(); ++i) {
      int reader = static_cast<int>(param(i));
      const std::vector<Buffer>& to = s_.stages[step_.results[0]].buffers;
      rewrite_loads(reader, p.buffers, [&](int c, const std::vector<Expr>& indices) {
        return make_load(is_copied(indices) ? to[c] : p.buffers[c], indices);
      });
    }
  }

 private:
  void check_along() const {
    STEP_CHECK(step_.axes.size() <= 1, "it copies the reads along one axis at most");
    if (step_.axes.empty()) return;
    const int id = step_.axes[0];
    STEP_CHECK(id >= 0 && id < static_cast<int>(s_.axes.size()) && s_.axes[id].defined,
               "axis " + std::to_string(id) + " does not exist");
    const AxisState& axis = s_.axes[id];
    STEP_CHECK(step_.params.size() == 1 && axis.stage == param(0),
               "axis '" + axis.name + "' belongs to stage '" + s_.stages[axis.stage].name +
                   "', which is not the one reader");
    STEP_CHECK(axis.origin == AxisOrigin::Root, "axis '" + axis.name + "' is a part of one",
               "use an axis of the declaration");
  }

  // Whether a read at these indices goes to the copy.
  bool is_copied(const std::vector<Expr>& indices) const {
    return step_.axes.empty() || std::any_of(indices.begin(), indices.end(), [&](const Expr& e) {
             return uses_var(e, s_.axes[step_.axes[0]].var);
           });
  }
};

}  // namespace

void apply_stage_step(ScheduleState& state, const Step& step) {
  switch (step.kind) {
    case StepKind::CacheWrite: return CopySteps(state, step).cache_write();
    case StepKind::CacheRead: return CopySteps(state, step).cache_read();
    case StepKind::Rfactor: return apply_rfactor_step(state, step);
    default: return apply_pad_step(state, step);
  }
}

}  // namespace heddle
