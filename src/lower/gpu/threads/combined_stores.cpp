// Sums of integers whose sources are shared by all blocks:
//
//   for i { S[i] = 0 }                                   in one thread
//   for q (blockIdx, threadIdx) { for i { S[i] = S[i] + select(p[q] == i, x[q], 0) } }
//     -->  for f (blockIdx, threadIdx) { S[f] = 0 }
//          for q (blockIdx, threadIdx) { if (0 <= p[q] && p[q] < n) combined S[p[q]] = S[p[q]] + x[q] }
//
// Threads combine what they have for an element in memory. As the order does not matter
// (combines_in_any_order), results are the same in every run.
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "ir/combined_store.h"
#include "lower/gpu/gpu_passes.h"
#include "lower/passes.h"

namespace heddle::gpu {
namespace {

constexpr int64_t kThreads = 256;  // of a block that stores first values
constexpr int64_t kBytes = 16;     // that a thread stores

const Store* combined_in(const Stmt& s) {
  const Store* found = nullptr;
  visit(
      s,
      [&](const Stmt& x) {
        const Store* store = x.as<Store>();
        if (store && has(store->hint, kCombined)) found = store;
      },
      [](const Expr&) {});
  return found;
}

/// The store of a constant that is all that the loops of `s` have; null where there is more.
const Store* fill_of(const Stmt& s) {
  Stmt inside = s;
  while (const For* f = inside.as<For>()) inside = f->body;
  const Store* store = inside.as<Store>();
  return store && is_const(store->value) ? store : nullptr;
}

/// All elements of a buffer become `value`.
Stmt filled(const Buffer& b, const Expr& value) {
  const int64_t* row = b->shape.empty() ? nullptr : as_int(b->shape.back());
  int64_t lanes = row ? kBytes / b->dtype.bytes() : 1;  // no vectors where calls give its length
  while (row && *row % lanes != 0) lanes /= 2;
  Expr all(1);
  for (const Expr& extent : b->shape) all = all * extent;
  const Expr vectors = simplify(floordiv(all, Expr(lanes)));
  const Var block("block"), thread("thread"), lane("lane");
  const Expr number = block * kThreads + thread;
  std::vector<Expr> at(b->shape.size());
  Expr left = number * lanes + lane;
  for (size_t d = at.size(); d-- > 0;) {
    at[d] = d == 0 ? left : floormod(left, b->shape[d]);
    left = floordiv(left, b->shape[d]);
  }
  Stmt s = make_for(lane, Expr(lanes), LoopKind::Vectorized, make_store(b, at, value));
  if (!is_const(simplify(floormod(vectors, Expr(kThreads))), 0)) s = make_if(number < vectors, s);
  s = make_for(thread, Expr(kThreads), LoopKind::ThreadX, s);
  return make_for(block, simplify(floordiv(vectors + (kThreads - 1), kThreads)), LoopKind::BlockX,
                  s);
}

Stmt scattered(const Stmt& s, const Expr& identity) {
  if (!s) return s;
  if (const For* f = s.as<For>(); f && f->loop == LoopKind::Serial) {
    if (Stmt stored = lowering::scattered_source(*f, identity)) return stored;
  }
  return map_children(
      s, [&](const Stmt& c) { return scattered(c, identity); }, [](const Expr& e) { return e; });
}

void check_is_outermost(const Store& combined, bool fits) {
  if (fits) return;
  throw_user_error("blocks combine sums of '" + combined.buffer->name +
                       "', whose first values are stored inside of other loops",
                   {}, "reorder the loops of the sum around all others");
}

}  // namespace

Stmt combined_stores(const Stmt& s) {
  if (!s) return s;
  if (const Allocate* a = s.as<Allocate>())
    return make_allocate(a->buffer, combined_stores(a->body), a->copies);
  const Block* b = s.as<Block>();
  if (!b) {
    if (const Store* combined = combined_in(s)) check_is_outermost(*combined, false);
    return s;
  }
  std::vector<Stmt> out;
  for (const Stmt& x : b->stmts) {
    const bool holds_others = x.kind() == StmtKind::Block || x.kind() == StmtKind::Allocate;
    const Store* combined = holds_others ? nullptr : combined_in(x);
    if (!combined) {
      out.push_back(combined_stores(x));
      continue;
    }
    const Store* first = out.empty() ? nullptr : fill_of(out.back());
    check_is_outermost(*combined, first && first->buffer == combined->buffer);
    const Expr identity = first->value;
    out.back() = filled(combined->buffer, identity);
    out.push_back(scattered(x, identity));
  }
  return make_block(std::move(out));
}

}  // namespace heddle::gpu
