// The race detector: which accesses of the threads of a grid are ordered.
//
// Time is one counter, the phase. It advances at every block and every Sync Block. An earlier
// access is therefore placed by comparing its phase with the phase at which the current block
// began, and nothing is reset during a launch. A second counter for each warp does the same for
// Sync Warp, and one for each warp group for Sync WarpGroup.
//
// Each element remembers the last write and up to two reads since. That is exact: a write that is
// ordered after earlier accesses replaces them (as in FastTrack, Flanagan and Freund 2009), and two
// reads suffice to find a conflict with any later write.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle::emu {

constexpr int kWarp = 32, kWarpGroup = 128;

struct Access {
  std::uint32_t phase = 0;  ///< 0: none
  std::uint32_t warp_phase = 0, group_phase = 0;
  const StmtNode* statement = nullptr;
  int thread = 0;
};

/// The accesses that are remembered for one element.
struct History {
  Access write, read, other_read;
};

class Clock {
 public:
  /// The clock of a launch whose blocks have `threads` threads.
  explicit Clock(int threads)
      : warp_phase_(static_cast<std::size_t>((threads + kWarp - 1) / kWarp)),
        group_phase_(static_cast<std::size_t>((threads + kWarpGroup - 1) / kWarpGroup)) {}
  void start_block() { block_ = ++phase_; }
  void sync_block() { ++phase_; }
  /// Orders all accesses of other blocks so far before those of this block from now on.
  void order_all() { ordered_ = block_; }
  void sync_warp(int warp) { ++warp_phase_[static_cast<std::size_t>(warp)]; }
  void sync_group(int group) { ++group_phase_[static_cast<std::size_t>(group)]; }

  bool in_other_block(const Access& a) const { return a.phase >= ordered_ && a.phase < block_; }

  bool of_other_block(const History& h) const {
    return in_other_block(h.write) || in_other_block(h.read);
  }

  /// Each returns the earlier access that this one races with, or null.
  const Access* read(History& h, int thread, const StmtNode* statement) const {
    if (!ordered(h.write, thread)) return &h.write;
    remember_read(h, now(thread, statement));
    return nullptr;
  }
  const Access* write(History& h, int thread, const StmtNode* statement) const {
    if (!ordered(h.write, thread)) return &h.write;
    if (!ordered(h.read, thread)) return &h.read;
    if (!ordered(h.other_read, thread)) return &h.other_read;
    h.write = now(thread, statement);
    h.read.phase = h.other_read.phase = 0;
    return nullptr;
  }

 private:
  static std::size_t warp_of(int thread) { return static_cast<std::size_t>(thread / kWarp); }

  /// Whether `a` happens before the current access of `thread`.
  bool ordered(const Access& a, int thread) const {
    if (a.phase < ordered_) return true;
    if (a.phase < block_) return false;  // another block
    if (a.phase < phase_ || a.thread == thread || ordered_in_group(a, thread)) return true;
    return warp_of(a.thread) == warp_of(thread) && a.warp_phase < warp_phase_[warp_of(thread)];
  }
  Access now(int thread, const StmtNode* statement) const {
    return {phase_, warp_phase_[warp_of(thread)], group_phase_[group_of(thread)], statement,
            thread};
  }
  static std::size_t group_of(int thread) { return static_cast<std::size_t>(thread / kWarpGroup); }
  /// Whether a barrier of the warp group of both lies between `a` and the current access.
  bool ordered_in_group(const Access& a, int thread) const {
    return group_of(a.thread) == group_of(thread) && a.group_phase < group_phase_[group_of(thread)];
  }
  void remember_read(History& h, const Access& a) const;

  std::uint32_t phase_ = 0, block_ = 0;
  std::uint32_t ordered_ = 1;  // accesses before this phase are ordered; phase 0: none
  std::vector<std::uint32_t> warp_phase_, group_phase_;
};

}  // namespace heddle::emu
