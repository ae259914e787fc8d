// Programmatic dependent launch: blocks of a kernel begin while the last blocks of the kernel
// before it run, and wait for its end on the GPU (PTX, "griddepcontrol"). What the launch costs,
// and what a kernel does before its first access to global memory, then overlaps with that kernel.
//
// Every thread of every block waits, also of a kernel that accesses nothing. The end of a kernel
// therefore means that all kernels before it have ended.
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

bool is_global(const Buffer& b) { return b->scope != Scope::Local && b->scope != Scope::Shared; }

bool accesses_memory(const Stmt& s) {
  bool found = false;
  visit(
      s,
      [&](const Stmt& x) {
        if (const Store* st = x.as<Store>()) found |= is_global(st->buffer);
        if (const Prefetch* p = x.as<Prefetch>()) found |= is_global(p->buffer);
        const TileOp* op = x.as<TileOp>();
        for (size_t i = 0; op && i < op->operands.size(); ++i)
          found |= is_global(op->operands[i].buffer);
      },
      [&](const Expr& e) {
        const Load* load = e.as<Load>();
        found |= load && is_global(load->buffer);
      });
  return found;
}

Stmt with_wait(const Stmt& s) {
  const Stmt wait = make_sync(SyncKind::GridWait);
  if (const Allocate* a = s.as<Allocate>())
    return make_allocate(a->buffer, with_wait(a->body), a->copies);
  // Not inside of loops: some threads or blocks may have no iteration of them.
  const Block* block = s.as<Block>();
  if (!block) return make_block({wait, s});
  std::vector<Stmt> out;
  bool waited = false;
  for (const Stmt& c : block->stmts) {
    const bool here = !waited && accesses_memory(c);
    out.push_back(here ? with_wait(c) : c);
    waited |= here;
  }
  if (!waited) out.push_back(wait);
  return make_block(std::move(out));
}

}  // namespace

void overlap_launch(GpuKernel& kernel) {
  if (!kernel.body) return;
  kernel.body = with_wait(kernel.body);
  kernel.overlaps = true;
}

}  // namespace heddle::gpu
