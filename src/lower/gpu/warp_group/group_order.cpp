#include "lower/gpu/warp_group/group_order.h"

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/warp_group/barriers.h"
#include "lower/gpu/warp_group/stored_tiles.h"

namespace heddle::gpu {

GroupOrder::GroupOrder(const Turns& turns, int64_t groups) : turns_(turns), groups_(groups) {
  HEDDLE_ICHECK(!alternate() || groups_ == 1, "warp groups that take turns work alone");
}

Stmt GroupOrder::of_turn(const For& f, const Stmt& body) const {
  if (!alternate() || !turns_.turn || f.var.get() != turns_.turn->get()) return body;
  return make_if(floormod(turn(), Expr(2)) == group_.expr(), body);
}

// A wait for a tile tells only every other round of the ring from the next one.
Stmt GroupOrder::in_order(const Stmt& products) const {
  if (!alternate()) return products;
  const Expr parity =
      simplify(floormod(floordiv(turn(), Expr(2)) + Expr(1) - group_.expr(), Expr(2)));
  return make_block(
      {wait_at(order_, group_.expr(), parity), products,
       by_one_thread(on_barrier(tile::BarrierArrive{false}, order_, Expr(1) - group_.expr()))});
}

Stmt GroupOrder::all_turns(const Stmt& s) const {
  return alternate() && !turns_.turn ? make_if(group_.expr() < Expr(1), s) : s;
}

std::vector<Stmt> GroupOrder::init() const {
  if (!alternate()) return {};
  return {on_barrier(tile::BarrierInit{1}, order_, Expr(0)),
          on_barrier(tile::BarrierInit{1}, order_, Expr(1))};
}

}  // namespace heddle::gpu
