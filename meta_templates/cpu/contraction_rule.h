// The rule for contractions on CPUs: which register tile, which blocks, whether the reduction is
// cut, which operands are copied.
#pragma once

#include "cpu/contraction_problem.h"

namespace heddle::meta::cpu {

/// How the reduction of a contraction is done (knob "reduction").
enum Reduction : int64_t {
  kWholeReduction = 0,  ///< at once, for each register tile
  kKBlocked = 1,        ///< in blocks that add into the result
  kSplitK = 2,          ///< in parts, in parallel, that are added up after
};

/// What is done with the operand that is read by vectors (knob "pack_vectors").
enum PackVectors : int64_t {
  kAsItLies = 0,
  kPackWhole = 1,  ///< copied in panels of tiles, before all else
  /// Each panel is copied when a block comes to it: that passes through memory once, not three
  /// times, and no thread waits for another.
  kPackPanels = 2,
};

/// What is done with the operand that is broadcast (knob "pack_broadcasts").
enum PackBroadcasts : int64_t {
  kBroadcastAsItLies = 0,
  kPackTiles = 1,     ///< copied in tiles of rows
  kWidenInPlace = 2,  ///< 16-bit floats: copied as they lie, as f32
};

/// A default for every knob of the contraction. Blocks, and how the reduction is cut, go with the
/// tile, the packing of vectors and the layout of channels that are `given`, if any.
Choice contraction_rule(const ContractionProblem& p, const Choice& given = Choice());

/// Whether the reduction may be cut into blocks, and into parts for the threads.
bool can_block_k(const ContractionProblem& p);
bool can_split_k(const ContractionProblem& p);

/// The most steps of a reduction that may be unrolled whole: a window.
inline constexpr int64_t kShortWindow = 8;

/// `length`, lengthened to whole groups of products for one instruction.
int64_t whole_groups(const ContractionProblem& p, int64_t length);

}  // namespace heddle::meta::cpu
