#include "lower/nest/storage.h"

#include <algorithm>

#include "ir/sizes.h"

namespace heddle::lowering {
namespace {

// The shape of the stage's buffers when they hold `extents` elements along its dimensions.
std::vector<Expr> storage_shape(const StageState& p, const std::vector<Expr>& extents) {
  std::vector<Expr> shape;
  if (p.layout.empty()) shape = extents;
  for (const auto& l : p.layout) {
    shape.push_back(l.modulus ? Expr(l.modulus)
                              : floordiv(extents[l.dim] + Expr(l.divisor - 1), Expr(l.divisor)));
  }
  if (p.pad > 0 && !shape.empty()) shape.back() = shape.back() + Expr(p.pad);
  for (Expr& e : shape) e = simplify(e);
  return shape;
}

}  // namespace

StageBuffers root_buffers(const ScheduleState& state, int stage, Scope scope) {
  const StageState& p = state.stages[stage];
  std::vector<Expr> extents;
  // An input has neither axes nor a layout.
  if (p.spatial.empty()) extents = p.buffers[0]->shape;
  for (int a : p.spatial) {
    const AxisState& axis = state.axes[a];
    extents.push_back(is_symbolic(axis.extent) ? axis.extent : Expr(axis.static_extent));
  }
  if (p.places >= 0) {
    const size_t named = state.stages[p.places].buffers[0]->shape.size();
    extents.erase(extents.begin() + 1, extents.begin() + static_cast<long>(named));
    extents[0] = Expr(p.rows);
  }
  StageBuffers out{stage, {}};
  for (const Buffer& b : p.buffers) {
    out.buffers.push_back(Buffer::make(b->name, b->dtype, storage_shape(p, extents), scope));
  }
  return out;
}

Storage::Storage(const StageGraph& graph, const AxisScope& axes,
                 const std::vector<StageBuffers>& external)
    : graph_(graph), axes_(axes), held_(graph.state().stages.size()) {
  for (const StageBuffers& x : external)
    held_[x.stage] = {x.buffers, std::vector<Expr>(graph.stage(x.stage).spatial.size(), Expr(0))};
}

const std::vector<Buffer>& Storage::make(int st, const std::vector<Expr>& mins,
                                         const std::vector<Expr>& extents, Scope scope) {
  const StageState& p = graph_.stage(st);
  std::vector<Expr> bound(extents.size());
  // Whether the dimensions before this one have one element.
  bool first = scope == Scope::Global;
  for (size_t d = 0; d < extents.size(); ++d) {
    const bool beyond = axes_.part(st).beyond != 0;
    const int64_t most = beyond ? INT64_MAX : graph_.state().axes[p.spatial[d]].static_extent;
    const int64_t here = upper_bound(extents[d], axes_.loops().ranges());
    bound[d] = Expr(std::max<int64_t>(1, std::min(most, here)));
    // No stride that is used depends on the first dimension, so it need not be as large as it can
    // be.
    if (first && is_symbolic(extents[d])) bound[d] = extents[d];
    first = first && is_const(bound[d], 1);
  }
  const std::vector<Expr> shape = storage_shape(p, bound);
  Held fresh{{}, mins};
  for (const Buffer& b : p.buffers)
    fresh.buffers.push_back(Buffer::make(b->name, b->dtype, shape, scope, b->windows));
  Held& at = held_[static_cast<size_t>(st)];
  changed_.emplace_back(st, std::exchange(at, std::move(fresh)));
  return at.buffers;
}

Storage::Restored::~Restored() {
  for (auto& changed = of_.changed_; changed.size() > changed_; changed.pop_back())
    of_.held_[static_cast<size_t>(changed.back().first)] = std::move(changed.back().second);
}

std::vector<Expr> Storage::indices(int st, const std::vector<Expr>& logical) const {
  const StageState& p = graph_.stage(st);
  const OpenLoops& loops = axes_.loops();
  std::vector<Expr> local;
  for (size_t d = 0; d < logical.size(); ++d)
    local.push_back(loops.simple_access(logical[d] - held(st).mins[d]));
  if (p.layout.empty()) return local;
  std::vector<Expr> out;
  for (const auto& l : p.layout) {
    Expr x = local[l.dim];
    if (l.divisor != 1) x = floordiv(x, Expr(l.divisor));
    if (l.modulus != 0) x = floormod(x, Expr(l.modulus));
    out.push_back(loops.simple_access(x));
  }
  return out;
}

}  // namespace heddle::lowering
