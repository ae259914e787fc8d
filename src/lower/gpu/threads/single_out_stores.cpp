#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

// A store to memory that other threads see, without a loop over threads around it, is done by one
// thread.
Stmt single_out(const Stmt& s, const LaunchShape& shape, std::vector<Var> open[3]) {
  if (!s) return s;
  if (const For* f = s.as<For>(); f && is_thread(f->loop)) {
    auto& loops = open[grid_dim(f->loop)];
    loops.push_back(f->var);
    Stmt body = single_out(f->body, shape, open);
    loops.pop_back();
    return make_for(f->var, f->extent, f->loop, body);
  }
  if (const Store* st = s.as<Store>(); st && st->buffer->scope != Scope::Local) {
    Stmt r = s;
    for (int d = 0; d < 3; ++d) {
      if (shape.block[static_cast<size_t>(d)] == 1) continue;
      const LoopKind kind = LoopKind::threads(d);
      if (open[d].empty()) {
        r = make_for(Var("one"), Expr(1), kind, r);
        continue;
      }
      bool uses = false;
      for (const Expr& i : st->indices) uses |= uses_var(i, open[d].back());
      if (!uses && st->buffer->scope == Scope::Shared)
        r = make_if(open[d].back().expr() < Expr(1), r);
    }
    return r;
  }
  return map_children(
      s, [&](const Stmt& c) { return single_out(c, shape, open); },
      [](const Expr& e) { return e; });
}

}  // namespace

Stmt single_out_stores(const Stmt& s, const LaunchShape& shape) {
  std::vector<Var> open[3];
  return single_out(s, shape, open);
}

}  // namespace heddle::gpu
