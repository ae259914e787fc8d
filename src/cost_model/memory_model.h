// Figures of memory: what each loop touches, what fits which cache, what has to come from beyond.
#pragma once

#include "cost_model/program_walk.h"

namespace heddle::cost_model {

constexpr double kLineBytes = 64;

/// What an access touches while the loops from `depth` inwards run once.
Footprint footprint(const Access& a, const BufferUse& buffer, int depth);

/// Fills in what program_walk.h says the memory model does.
///
/// The bytes from beyond a cache, for an access under loops 0..D-1: let k be the outermost loop of
/// which one run touches no more than the cache holds. While loop k-1 runs, what k leaves in the
/// cache serves its next iteration; loops further out find nothing of it any more. So the bytes are
/// those that one run of loop k-1 touches, times the iterations of the loops outside of it.
void model_memory(Program* p, const Target& target);

}  // namespace heddle::cost_model
