#include <algorithm>

#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

// Alignments: of the longest access, and of eight 128-byte rows of a tile that TMA swizzles.
constexpr int64_t kAlignmentBytes = 16, kSwizzledBytes = 1024;

int64_t rounded_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

bool is_swizzled(const Allocate& a) {
  bool found = false;
  visit(
      a.body,
      [&](const Stmt& s) {
        const TileOp* op = s.as<TileOp>();
        found |= op && (op->as<tile::BulkLoad>() || op->as<tile::BulkStore>()) &&
                 op->operands[0].buffer == a.buffer;
      },
      [](const Expr&) {});
  return found;
}

int64_t bytes_of(const Buffer& b) {
  return rounded_up(b.num_elements() * b->dtype.bytes(), kAlignmentBytes);
}

// Gives each shared buffer of `s` its place, from `offset` on. Returns the first byte behind them.
// Buffers lie one after the other. Only the arms of an If may share memory, because a block runs
// one of them. A buffer of a loop that was cut is allocated in each part, and has one place: it is
// one buffer to the barriers, too.
int64_t place(const Stmt& s, int64_t offset, std::vector<GpuKernel::SharedSlot>* slots) {
  if (!s) return offset;
  const Allocate* a = s.as<Allocate>();
  if (a && a->buffer->scope == Scope::Shared) {
    const auto known = std::find_if(slots->begin(), slots->end(),
                                    [&](const auto& x) { return x.buffer == a->buffer; });
    if (known != slots->end())
      return place(a->body, std::max(offset, known->offset + bytes_of(a->buffer)), slots);
    if (is_swizzled(*a)) offset = rounded_up(offset, kSwizzledBytes);
    slots->push_back({a->buffer, offset});
    offset += bytes_of(a->buffer);
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
  // A barrier separates the tail from the body, so the tail may use the same memory.
  kernel.shared_bytes = std::max(kernel.shared_bytes, place(kernel.tail, 0, &kernel.shared));
}

}  // namespace heddle::gpu
