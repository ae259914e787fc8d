// Nests that the schedule tensorizes over the rows of fragments, and that are no operation of a
// matrix unit. The lanes of a warp compute each the elements that they hold:
//
//   tensorized for m in 0..16 { for n in 0..64 { P[m, n] = exp(S[m, n] - high[m]) } }
//   tensorized for m in 0..16 { for n in 0..64 { high[m] = max(high[m], S[m, n]) } }
//
// A reduction of a row is that of each lane's elements, and two shuffles among the four lanes of
// the row, after which all of them have it. One of them stores a value of a row to memory.
#pragma once

#include "lower/gpu/tiles/tile_nest.h"
#include "lower/select_instructions.h"

namespace heddle::gpu {

/// The instructions of GPUs, and last the work of lanes, which becomes loops over the lanes of a
/// warp. The buffers that it names are added to `fragments`, and what nests are to `nests`; both must
/// outlive the result.
std::vector<lowering::InstructionMatch> gpu_instructions(Fragments* fragments, TileNests* nests);

}  // namespace heddle::gpu
