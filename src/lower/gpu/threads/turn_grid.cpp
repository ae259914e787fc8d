// The grid of a kernel with many blocks along y or z.
#include "lower/gpu/gpu_passes.h"
#include "target/grid_limits.h"

namespace heddle::gpu {
namespace {

// Whether all loops over blocks along x are plain ones.
bool has_plain_blocks(const Stmt& s) {
  bool plain = true;
  const auto look = [&](const auto& self, const Stmt& at) -> Stmt {
    const For* f = at ? at.as<For>() : nullptr;
    if (f && is_block(f->loop) && grid_dim(f->loop) == 0 && f->loop != LoopKind::BlockX)
      plain = false;
    if (f && f->loop == LoopKind::PairX) plain = false;
    if (at)
      (void)map_children(
          at, [&](const Stmt& c) { return self(self, c); }, [](const Expr& e) { return e; });
    return at;
  };
  (void)look(look, s);
  return plain;
}

Stmt exchanged(const Stmt& s, LoopKind a, LoopKind b) {
  if (!s) return s;
  const Stmt inside = map_children(
      s, [&](const Stmt& c) { return exchanged(c, a, b); }, [](const Expr& e) { return e; });
  const For* f = inside.as<For>();
  if (!f || (f->loop != a && f->loop != b)) return inside;
  return make_for(f->var, f->extent, f->loop == a ? b : a, f->body);
}

}  // namespace

void turn_grid(GpuKernel& kernel) {
  const Stmt all = make_block({kernel.body, kernel.tail});
  const LaunchShape shape = launch_shape(all);
  const size_t longest = shape.grid[1] > shape.grid[2] ? 1 : 2;
  if (shape.grid[longest] <= kMostBlocks[longest] || shape.grid[0] > kMostBlocks[longest] ||
      !has_plain_blocks(all))
    return;
  const LoopKind along = longest == 1 ? LoopKind::BlockY : LoopKind::BlockZ;
  kernel.body = exchanged(kernel.body, LoopKind::BlockX, along);
  kernel.tail = exchanged(kernel.tail, LoopKind::BlockX, along);
}

}  // namespace heddle::gpu
