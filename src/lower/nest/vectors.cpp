#include "lower/nest/vectors.h"

#include <algorithm>
#include <optional>

#include "heddle/ir/simplify.h"

namespace heddle::lowering {
namespace {

// The root axis that `id` is a part of; nullopt where it was fused with others.
std::optional<Var> root_of(const ScheduleState& s, int id) {
  const AxisState& a = s.axes[static_cast<size_t>(id)];
  if (a.origin == AxisOrigin::Root) return a.var;
  if (a.origin == AxisOrigin::Fused) return std::nullopt;
  return root_of(s, a.parent);
}

// Whether iterations of `v` read neighbours of what is stored with dimension `last` innermost.
bool is_run(const Load& load, size_t last, const Var& v) {
  for (size_t d = 0; d < load.indices.size(); ++d) {
    if (!uses_var(load.indices[d], v)) continue;
    const std::optional<Affine> index = as_affine(load.indices[d]);
    if (d != last || !index || index->coefficient(v) != 1) return false;
  }
  return true;
}

}  // namespace

int64_t lanes_inside(const ScheduleState& s, int id) {
  const AxisState& a = s.axes[static_cast<size_t>(id)];
  if (a.loop == LoopKind::Vectorized)
    return a.origin == AxisOrigin::SplitInner ? s.axes[a.parent].factor : 0;
  if (a.split_outer < 0) return 0;
  return std::max(lanes_inside(s, a.split_outer), lanes_inside(s, a.split_inner));
}

// Lanes of a load with a stride take as long where they are left out, and masks make all slower. A
// copy reads each element once, so only reductions count.
bool vectors_are_runs(const StageGraph& graph, const LoopPlace& at) {
  const ScheduleState& s = graph.state();
  const auto inside = at.leaves.begin() + static_cast<ptrdiff_t>(at.n);
  for (const int p : graph.order()) {
    const StageState& x = graph.stage(p);
    if (!x.is_reduction() || x.placement != Placement::At || x.at_stage != at.stage ||
        std::find(inside, at.leaves.end(), x.at_axis) == at.leaves.end())
      continue;
    for (const int id : graph.axes(p)) {
      if (s.axes[id].loop != LoopKind::Vectorized) continue;
      const std::optional<Var> v = root_of(s, id);
      bool runs = v.has_value();
      for (const Expr& body : x.bodies) {
        visit(body, [&](const Expr& e) {
          const Load* load = e.as<Load>();
          if (!load || !runs) return;
          const auto& layout = graph.stage(graph.stage_of(load->buffer)).layout;
          const size_t last = load->indices.size() - 1;
          runs = is_run(*load, layout.empty() ? last : static_cast<size_t>(layout.back().dim), *v);
        });
      }
      if (!runs) return false;
    }
  }
  return true;
}

}  // namespace heddle::lowering
