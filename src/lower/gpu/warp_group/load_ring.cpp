#include "lower/gpu/warp_group/load_ring.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "lower/gpu/warp_group/barriers.h"
#include "lower/gpu/warp_group/stored_tiles.h"

namespace heddle::gpu {

LoadRing::LoadRing(FillAndUse tiles, const std::optional<Var>& rank)
    : tiles_(std::move(tiles)),
      rank_(rank),
      copies_(int64_t{tiles_.t.copies}),
      full_(Buffer::make("full", u64, {copies_}, Scope::Shared)),
      empty_(Buffer::make("empty", u64, {copies_}, Scope::Shared)) {
  HEDDLE_ICHECK(tiles_.t.copies > 1, "a ring of boxes has several copies");
}

Expr LoadRing::slot_of(const Expr& count) const { return simplify(floormod(count, copies_)); }

// The parity of the phase in which iteration `count` uses its slot.
Expr LoadRing::parity_of(const Expr& count) const {
  return simplify(floormod(floordiv(count, copies_), Expr(2)));
}

Stmt LoadRing::fill(const Expr& count) const {
  // For a new barrier, a wait for the phase before the first one returns at once.
  const Expr slot = slot_of(count), before = simplify(Expr(1) - parity_of(count));
  return make_block({wait_at(empty_, slot, before),
                     arriving(in_slot(tiles_.fill, tiles_, slot, false), full_, slot, rank_)});
}

Stmt LoadRing::wait(const Expr& count) const {
  return wait_at(full_, slot_of(count), parity_of(count));
}

Stmt LoadRing::release(const Expr& count) const {
  return by_one_thread(on_barrier(tile::BarrierArrive{rank_.has_value()}, empty_, slot_of(count)));
}

Stmt LoadRing::at(const Stmt& s, const Expr& count) const {
  return in_slot(s, tiles_, slot_of(count), false);
}

Stmt LoadRing::init(int64_t groups) const {
  const Var slot("slot");
  const int arrivals = static_cast<int>(rank_ ? 2 * groups : groups);
  return make_for(slot, copies_, LoopKind::Serial,
                  make_block({on_barrier(tile::BarrierInit{1}, full_, slot),
                              on_barrier(tile::BarrierInit{arrivals}, empty_, slot)}));
}

Stmt LoadRing::with_barriers(const Stmt& s) const {
  return make_allocate(empty_, make_allocate(full_, s));
}

Stmt LoadRing::with_tiles(Stmt s) const {
  for (auto b = tiles_.rings.rbegin(); b != tiles_.rings.rend(); ++b) s = make_allocate(*b, s);
  return s;
}

bool SingleLoads::has(const Buffer& tile) const {
  return std::find(tiles_.begin(), tiles_.end(), tile) != tiles_.end();
}

Stmt SingleLoads::load(const Stmt& loads, const std::optional<Var>& rank) {
  HEDDLE_ICHECK(loads_ < kMost, "a block loads too many boxes outside of its ring");
  return arriving(loads, arrived_, Expr(loads_++), rank);
}

Stmt SingleLoads::wait() { return wait_at(arrived_, Expr(waits_++), Expr(0)); }

std::vector<Stmt> SingleLoads::init() const {
  std::vector<Stmt> out;
  for (int i = 0; i < loads_; ++i)
    out.push_back(on_barrier(tile::BarrierInit{1}, arrived_, Expr(i)));
  return out;
}

Stmt SingleLoads::with_barriers(const Stmt& s) const {
  return loads_ > 0 ? make_allocate(arrived_, s) : s;
}

}  // namespace heddle::gpu
