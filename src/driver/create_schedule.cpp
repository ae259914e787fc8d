#include "heddle/driver/build.h"
#include "schedule/schedule_state.h"

namespace heddle {

Schedule create_schedule(const std::vector<Tensor>& outputs, const Target& target) {
  Template t = make_template(ComputeDag(outputs), target);
  Schedule s = t.instantiate(t.default_config());
  s.provenance = "analytic rule of " + t.name();
  return s;
}

Schedule naive_schedule(const std::vector<Tensor>& outputs) {
  Schedule s(outputs);
  for (int i = 0; i < s.dag().size(); ++i) {
    const Operation& op = s.dag().stage(i);
    if (op.is_placeholder() || op.axes().empty()) continue;
    StageRef st = s.stage(i);
    // All but the innermost axis, so that rows stay contiguous; a vector is split over threads
    // whole.
    std::vector<Loop> outer = st.all_axes();
    if (outer.size() > 1) outer.pop_back();
    st.parallel(st.fuse(outer));
  }
  s.provenance = "naive: outer loops fused and parallel";
  return s;
}

}  // namespace heddle
