// The ring of tiles that one thread keeps filled, with barriers: `full` of a slot is passed when its
// boxes have arrived, `empty` when all warp groups have multiplied them. Iterations are counted over
// all loops around: iteration `count` uses slot count % copies.
#pragma once

#include "lower/gpu/warp_group/tile_ring.h"

namespace heddle::gpu {

class LoadRing {
 public:
  /// The tiles of a kernel, which has one ring. `rank`: of a block in its pair.
  LoadRing(FillAndUse tiles, const std::optional<Var>& rank);

  const Stmt& use() const { return tiles_.use; }
  const FillAndUse& tiles() const { return tiles_; }

  /// Fills the slot as soon as it is empty.
  Stmt fill(const Expr& count) const;
  /// Waits until the slot is full.
  Stmt wait(const Expr& count) const;
  /// The warp group has multiplied what is in the slot.
  Stmt release(const Expr& count) const;
  /// `s` with accesses to the tiles in the slot.
  Stmt at(const Stmt& s, const Expr& count) const;

  /// The barriers begin; `groups` warp groups of a block release each slot.
  Stmt init(int64_t groups) const;
  Stmt with_barriers(const Stmt& s) const;
  Stmt with_tiles(Stmt s) const;

 private:
  Expr slot_of(const Expr& count) const;
  Expr parity_of(const Expr& count) const;

  FillAndUse tiles_;
  std::optional<Var> rank_;
  Expr copies_;
  Buffer full_, empty_;
};

/// Boxes that a block loads once, before the ring. Each statement that loads some has a barrier.
class SingleLoads {
 public:
  void add(const Buffer& tile) { tiles_.push_back(tile); }
  bool has(const Buffer& tile) const;

  /// `loads`, in the order of the program.
  Stmt load(const Stmt& loads, const std::optional<Var>& rank);
  /// Waits for the next one of them.
  Stmt wait();

  std::vector<Stmt> init() const;
  Stmt with_barriers(const Stmt& s) const;
  const std::vector<Buffer>& tiles() const { return tiles_; }

 private:
  static constexpr int64_t kMost = 4;
  std::vector<Buffer> tiles_;
  int loads_ = 0, waits_ = 0;
  const Buffer arrived_ = Buffer::make("arrived", u64, {Expr(kMost)}, Scope::Shared);
};

}  // namespace heddle::gpu
