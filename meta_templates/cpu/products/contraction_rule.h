// The rule for contractions on CPUs. It chooses the register tile, the blocks, the cuts of the
// reduction and the operands to be copied.
#pragma once

#include "cpu/products/contraction_problem.h"

namespace heddle::meta::cpu {

/// How the reduction of a contraction is done (knob "reduction").
enum Reduction : int64_t {
  kWholeReduction = 0,  ///< at once, for each register tile
  kKBlocked = 1,        ///< in blocks, each of which adds to the result
  kSplitK = 2,          ///< in parallel parts, whose results are then added up
};

/// The treatment of the operand that is read by vectors (knob "pack_vectors").
enum PackVectors : int64_t {
  kAsItLies = 0,
  kPackWhole = 1,  ///< copied in panels of tiles before the product
  /// Each panel is copied when a block needs it. This passes through memory once and not three
  /// times, and no thread waits for another.
  kPackPanels = 2,
};

/// The treatment of the operand that is broadcast (knob "pack_broadcasts").
enum PackBroadcasts : int64_t {
  kBroadcastAsItLies = 0,
  kPackTiles = 1,     ///< copied in tiles of rows
  kWidenInPlace = 2,  ///< 16-bit floats: copied in the same order, as f32
};

/// A default for every knob of the contraction. Blocks and cuts of the reduction match the tile,
/// the packing of vectors and the layout of channels that `given` contains, if any.
Choice contraction_rule(const ContractionProblem& p, const Choice& given = Choice());

/// Whether the reduction may be cut into blocks, and into parts for the threads.
bool can_block_k(const ContractionProblem& p);
bool can_split_k(const ContractionProblem& p);

/// Whether packed constants may be fetched ahead (knob "prefetch_packed").
bool offers_prefetch_of_packed(const ContractionProblem& p);
/// The numbers of steps that it offers.
inline constexpr int64_t kStepsFetchedAhead[] = {16, 32, 64};

/// The largest number of steps of a reduction that may be unrolled whole, as for a window.
inline constexpr int64_t kShortWindow = 8;

/// `length`, rounded up to whole groups of products for one instruction.
int64_t whole_groups(const ContractionProblem& p, int64_t length);

}  // namespace heddle::meta::cpu
