#include <algorithm>

#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

// A multiple of the longest access.
constexpr int64_t kAlignmentBytes = 16;

// Gives each shared buffer of `s` its place, from `offset` on; returns the first byte behind them.
// Buffers lie one after the other: only the arms of an If, of which a block runs one, may share
// memory.
int64_t place(const Stmt& s, int64_t offset, std::vector<GpuKernel::SharedSlot>* slots) {
  if (!s) return offset;
  if (const Allocate* a = s.as<Allocate>(); a && a->buffer->scope == Scope::Shared) {
    slots->push_back({a->buffer, offset});
    const int64_t bytes = a->buffer.num_elements() * a->buffer->dtype.bytes();
    offset += (bytes + kAlignmentBytes - 1) / kAlignmentBytes * kAlignmentBytes;
  }
  if (const If* i = s.as<If>()) {
    const int64_t then_end = place(i->then_body, offset, slots);
    return std::max(then_end, place(i->else_body, offset, slots));
  }
  map_children(
      s,
      [&](const Stmt& c) {
        offset = place(c, offset, slots);
        return c;
      },
      [](const Expr& e) { return e; });
  return offset;
}

}  // namespace

void place_shared(GpuKernel& kernel) {
  kernel.shared.clear();
  kernel.shared_bytes = place(kernel.body, 0, &kernel.shared);
  // The tail runs a barrier after the body: it may use the same memory.
  kernel.shared_bytes = std::max(kernel.shared_bytes, place(kernel.tail, 0, &kernel.shared));
}

}  // namespace heddle::gpu
