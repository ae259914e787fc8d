// The loop over tiles of a computed matrix, such as attention's: its last product multiplies what follows
// from those before.
//
//   for t { P = 0; P += A * tile(t); high, W = f(P, high); C = C*shrink; C += W * tile2(t) }
//   -->
//   P = 0; P += A * tile(0); wait; high, W = f(P, high); C = C*shrink
//   for t in 0..n-1 {
//     P = 0; P += A * tile(t+1); commit; C += W * tile2(t); commit
//     wait for P; high = f(P, high); wait for C; release t; W = f(P, high); C = C*shrink }
//   C += W * tile2(n-1); wait; release n-1
//
// P may be several products. Where no product follows from them, as in a sum of the rows of f(P), other
// warp groups multiply meanwhile:
//
//   for t { P = 0; P += A * tile(t); wait; release t; S += f(P) }
//
// The matrix units multiply while the warp group computes f (Shah et al. 2024, "FlashAttention-3",
// overlap within a warp group).
#pragma once

#include <functional>

#include "lower/gpu/warp_group/tile_ring.h"

namespace heddle::gpu {

/// How iteration `k` of the loop uses the ring.
struct ChainedRing {
  std::function<Stmt(const Stmt&, const Expr& k)> at;  ///< the statement in iteration k
  std::function<Stmt(const Expr& k)> wait, release;    ///< of its tiles
};

/// Whether the loop uses what its products add up to in each iteration.
bool has_chained_products(const FillAndUse& tiles);

/// The approximate number of registers of a thread in the pipelined loop: accumulators of all
/// products, the left operand of the last one, and others. `widest`: the accumulators of one product.
struct ChainRegisters {
  int all = 0, widest = 0;
};
ChainRegisters registers_of_chain(const Stmt& use, const Var& tile);

/// The pipelined loop. Throws an internal error where `ring.use` is no chain of products.
Stmt chained_products(const For& loop, const FillAndUse& tiles, const ChainedRing& ring);

}  // namespace heddle::gpu
