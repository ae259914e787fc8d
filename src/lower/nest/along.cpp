// Reductions that follow a loop of another stage: their first reduce axis runs along it
// (StageState::along). Inside of the loop they have the value of the iterations so far. Their
// accumulators, and those of that stage, may be rescaled in each iteration:
//
//   m = lowest; l = 0; O = 0
//   for t { tile = ..; m, shrink = max(m, tile), exp(m - ..)
//           l = l * shrink; l = l + ..
//           O = O * shrink; for c { O = O + .. } }
#include "heddle/support/error.h"
#include "lower/nest/nest_builder.h"

namespace heddle {

// A follower is available in each iteration, where its loops start again.
void NestBuilder::enter_follower(int p) {
  const StageState& x = stage(p);
  HEDDLE_ICHECK(!held_[p].empty() && !real_[p].buffers.empty(),
                "stage '" + x.name + "' follows a loop, and is not computed where that is");
  for (int id : graph_.axes(p)) change(id) = {};
  root_min_[p].clear();
  for (size_t d = 0; d < x.spatial.size(); ++d) {
    const SymInterval& i = held_[p][d];
    change(x.spatial[d]).extent = simple(i.hi - i.lo + Expr(1));
    root_min_[p].push_back(i.lo);
  }
}

// The leaves of the stage without the axis that follows, and without the other reduce axes unless
// `reduce` is set.
std::vector<int> NestBuilder::own_leaves(int p, bool reduce) const {
  std::vector<int> out;
  for (int id : stage(p).leaves) {
    if (id == stage(p).reduce[0] || (!reduce && s_.axes[id].kind == AxisKind::Reduce)) continue;
    out.push_back(id);
  }
  return out;
}

Stmt NestBuilder::emit_inits(int st, const std::vector<int>& leaves, size_t n) {
  std::vector<int> spatial;
  for (size_t i = n; i < leaves.size(); ++i) {
    if (s_.axes[leaves[i]].kind == AxisKind::Spatial) spatial.push_back(leaves[i]);
  }
  std::vector<Stmt> out;
  {
    const Known known(this);
    out.push_back(emit_loops(st, spatial, 0, Mode::Init));
  }
  for (int p : graph_.order()) {
    if (stage(p).along != leaves[n]) continue;
    const Known known(this);
    enter_follower(p);
    out.push_back(emit_loops(p, own_leaves(p, false), 0, Mode::Init));
  }
  return make_block(std::move(out));
}

Stmt NestBuilder::emit_update(int p, int st, size_t n) {
  std::vector<Stmt> out;
  if (stage(p).rescale.defined()) {
    const Known known(this);
    enter_follower(p);
    out.push_back(emit_loops(p, own_leaves(p, false), 0, Mode::Rescale));
  }
  const Known known(this);
  enter_follower(p);
  const int loop = stage(st).leaves[n], own = stage(p).reduce[0];
  change(own).extent = extent_of(loop);
  std::vector<int> pending;
  bind(own, axes_[loop].value, &pending);
  out.push_back(emit_loops(p, own_leaves(p, true), 0, Mode::Update));
  return make_block(std::move(out));
}

Stmt NestBuilder::emit_rescale(int st, const std::vector<int>& leaves) {
  std::vector<int> spatial;
  bool inside = false;
  for (int id : leaves) {
    if (inside && s_.axes[id].kind == AxisKind::Spatial) spatial.push_back(id);
    inside |= id == stage(st).reduce[0];
  }
  const Known known(this);
  return emit_loops(st, spatial, 0, Mode::Rescale);
}

Stmt NestBuilder::emit_rescale_store(int st) {
  const std::vector<Expr> at = own_indices(st);
  const Buffer& b = real_[st].buffers[0];
  const Expr by = simple_access(translate(stage(st).rescale, st));
  return guarded(make_store(b, at, make_load(b, at) * by));
}

Expr NestBuilder::within_reach(int st, const Expr& extent) {
  const StageState& x = stage(st);
  if (!x.reach.defined()) return extent;
  std::vector<VarBinding> last;
  for (size_t d = 0; d < x.spatial.size(); ++d) {
    const Expr most = root_min_[st][d] + extent_of(x.spatial[d]) - Expr(1);
    last.push_back({s_.axes[x.spatial[d]].var, most});
  }
  const Expr needed = max(substitute(x.reach, last), Expr(0));
  return simple(min(extent, needed));
}

}  // namespace heddle
