#include "lower/nest/open_parts.h"

namespace heddle::lowering {

OpenParts::OpenParts(const StageGraph& graph, AxisScope& axes, int stage, SymEnv* env)
    : s_(graph.state()), axes_(axes) {
  std::map<int, Expr> members;  // of fused loops, by axis
  for (const int id : graph.axes(stage)) {
    const AxisState& a = s_.axes[id];
    if (a.origin != AxisOrigin::Fused || a.fused_into >= 0 || axes_.axis(id).known() ||
        !axes_.open(id))
      continue;
    take_fusion_apart(id, imagine(id, env).expr(), &members);
  }
  const auto& spatial = graph.stage(stage).spatial;
  for (size_t d = 0; d < spatial.size(); ++d) {
    const AxisState& a = s_.axes[spatial[d]];
    if (axes_.axis(spatial[d]).known()) continue;
    Expr value;
    if (const auto it = members.find(spatial[d]); it != members.end()) {
      value = it->second;
    } else if (a.split_outer >= 0 && axes_.axis(a.split_outer).known() &&
               is_const(axes_.loops().simple(floormod(axes_.extent(spatial[d]), Expr(a.factor))),
                        0)) {
      const auto inner = members.find(a.split_inner);
      value = axes_.axis(a.split_outer).value * Expr(a.factor) +
              (inner != members.end() ? inner->second : imagine(a.split_inner, env).expr());
    } else {
      continue;
    }
    values_.push_back({a.var, axes_.part(stage).mins[d] + value});
  }
}

Var OpenParts::imagine(int axis, SymEnv* env) {
  const Var f(s_.axes[axis].name);
  SymInterval at = axes_.interval(axis);
  if (!axes_.guards().empty()) at.exact = false;
  (*env)[f.get()] = at;
  axes_.loops().imagine(f, axes_.extent(axis));
  loops_.push_back(f);
  return f;
}

void OpenParts::take_fusion_apart(int axis, const Expr& value, std::map<int, Expr>* members) {
  const AxisState& a = s_.axes[axis];
  if (a.origin != AxisOrigin::Fused) {
    const Expr& begin = axes_.axis(axis).begin;
    members->emplace(axis, begin.defined() ? value + begin : value);
    return;
  }
  const Expr inner = axes_.extent(a.fuse_b);
  const bool alone = is_const(axes_.extent(a.fuse_a), 1);
  take_fusion_apart(a.fuse_a, alone ? Expr(0) : floordiv(value, inner), members);
  take_fusion_apart(a.fuse_b, alone ? value : floormod(value, inner), members);
}

SymInterval OpenParts::interval(const Expr& index, const SymEnv& env) const {
  const Ranges& ranges = axes_.loops().ranges();
  if (!values_.empty()) {
    const Expr together = simplify(substitute(index, values_), ranges);
    bool by_loop = false, apart = false;
    visit(together, [&](const Expr& e) {
      const Binary* b = e.as<Binary>();
      apart |= b && (b->op == BinaryOp::FloorDiv || b->op == BinaryOp::FloorMod);
    });
    for (const Var& f : loops_) by_loop |= uses_var(together, f);
    if (by_loop && !apart) return interval_of(together, env, ranges);
  }
  return interval_of(index, env, ranges);
}

}  // namespace heddle::lowering
