// The warp groups that multiply, and whose turn it is. Where they take turns, one multiplies while the
// other one stores its results:
//
//   if (turn % 2 == group) { wait for order[group]; products; order[1 - group]: arrive; store }
#pragma once

#include "lower/gpu/warp_group/turns.h"

namespace heddle::gpu {

class GroupOrder {
 public:
  /// `groups` warp groups multiply a tile together.
  GroupOrder(const Turns& turns, int64_t groups);

  bool alternate() const { return turns_.alternate; }
  int64_t groups() const { return groups_; }
  int64_t consumers() const { return alternate() ? 2 * groups_ : groups_; }  ///< all that multiply
  const Var& warp_group() const { return group_; }                           ///< of the block
  /// The number of a warp group among those that multiply a tile together.
  Expr group() const { return alternate() ? Expr(0) : group_.expr(); }

  /// `body`, which is that of loop `f`, where the warp group has this turn.
  Stmt of_turn(const For& f, const Stmt& body) const;
  /// `products`, which wait for tiles of the ring, after those of the turn before.
  Stmt in_order(const Stmt& products) const;
  /// What a warp group does, where a block may have one turn.
  Stmt all_turns(const Stmt& s) const;

  std::vector<Stmt> init() const;
  Stmt with_barriers(const Stmt& s) const { return alternate() ? make_allocate(order_, s) : s; }

 private:
  Expr turn() const { return turns_.turn ? turns_.turn->expr() : Expr(0); }

  const Turns& turns_;
  const int64_t groups_;
  const Var group_{"group"};
  const Buffer order_ = Buffer::make("order", u64, {Expr(2)}, Scope::Shared);  // one for each group
};

}  // namespace heddle::gpu
