#include "lower/nest/followers.h"

#include "heddle/support/error.h"

namespace heddle::lowering {

void Followers::enter(int p) {
  const std::vector<SymInterval>& held = axes_.part(p).held;
  HEDDLE_ICHECK(
      !held.empty() && storage_.holds(p),
      "stage '" + graph_.stage(p).name + "' follows a loop, and is not computed where that is");
  std::vector<Expr> mins, extents;
  for (const SymInterval& i : held) {
    mins.push_back(i.lo);
    extents.push_back(axes_.loops().simple(i.hi - i.lo + Expr(1)));
  }
  axes_.enter(p, mins, extents);
}

std::vector<int> Followers::own_leaves(int p, bool reduce) const {
  const StageState& x = graph_.stage(p);
  std::vector<int> out;
  for (const int id : x.leaves) {
    if (id == x.reduce[0] || (!reduce && s_.axes[id].kind == AxisKind::Reduce)) continue;
    out.push_back(id);
  }
  return out;
}

Stmt Followers::inits(const LoopPlace& at, EmitLoops emit) {
  std::vector<int> spatial;
  for (size_t i = at.n; i < at.leaves.size(); ++i) {
    if (s_.axes[at.leaves[i]].kind == AxisKind::Spatial) spatial.push_back(at.leaves[i]);
  }
  std::vector<Stmt> out;
  {
    const AxisScope::Known known(axes_);
    out.push_back(emit(at.stage, spatial, LoopsFor::Init));
  }
  for (const int p : graph_.order()) {
    if (graph_.stage(p).along != at.axis()) continue;
    const AxisScope::Known known(axes_);
    enter(p);
    out.push_back(emit(p, own_leaves(p, false), LoopsFor::Init));
  }
  return make_block(std::move(out));
}

Stmt Followers::update(int p, int loop, EmitLoops emit) {
  std::vector<Stmt> out;
  if (graph_.stage(p).rescale.defined()) {
    const AxisScope::Known known(axes_);
    enter(p);
    out.push_back(emit(p, own_leaves(p, false), LoopsFor::Rescale));
  }
  const AxisScope::Known known(axes_);
  enter(p);
  axes_.run_along(graph_.stage(p).reduce[0], loop);
  out.push_back(emit(p, own_leaves(p, true), LoopsFor::Update));
  return make_block(std::move(out));
}

Stmt Followers::rescale(int st, const std::vector<int>& leaves, EmitLoops emit) {
  std::vector<int> spatial;
  bool inside = false;
  for (const int id : leaves) {
    if (inside && s_.axes[id].kind == AxisKind::Spatial) spatial.push_back(id);
    inside |= id == graph_.stage(st).reduce[0];
  }
  const AxisScope::Known known(axes_);
  return emit(st, spatial, LoopsFor::Rescale);
}

}  // namespace heddle::lowering
