// The loop over tiles of attention: its second product multiplies what follows from the first.
//
//   for t { P = 0; P += A * tile(t); high, W = f(P, high); C = C*shrink; C += W * tile2(t) }
//   -->
//   P = 0; P += A * tile(0); wait; high, W = f(P, high); C = C*shrink
//   for t in 0..n-1 {
//     P = 0; P += A * tile(t+1); commit; C += W * tile2(t); commit
//     wait for P; high = f(P, high); wait for C; release t; W = f(P, high); C = C*shrink }
//   C += W * tile2(n-1); wait; release n-1
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

/// Whether a warp group multiplies in several statements of `use`.
bool has_chained_products(const Stmt& use);

/// The approximate number of registers of a thread in the pipelined loop: accumulators of both
/// products, the left operand of the second one, and others.
int registers_of_chain(const Stmt& use);

/// The pipelined loop. Throws an internal error where `ring.use` is no chain of two products.
Stmt chained_products(const For& loop, const FillAndUse& tiles, const ChainedRing& ring);

}  // namespace heddle::gpu
