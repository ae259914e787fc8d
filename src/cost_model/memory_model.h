// Figures of memory: the bytes that each loop touches, the caches that they fit, and the traffic
// from beyond each cache.
#pragma once

#include "cost_model/program_walk.h"

namespace heddle::cost_model {

constexpr double kLineBytes = 64;

/// The memory that an access touches while the loops from `depth` inwards run once.
Footprint footprint(const Access& a, const BufferUse& buffer, int depth);

/// Fills the members that program_walk.h leaves to the memory model.
///
/// The bytes from beyond a cache, for an access under loops 0..D-1. Let k be the outermost loop of
/// which one run touches no more than the cache holds. While loop k-1 runs, the data that k leaves
/// in the cache serve its next iteration. Loops further out do not find them any more. The bytes
/// are therefore those that one run of loop k-1 touches, times the iterations of the loops outside
/// of it.
void model_memory(Program* p, const Target& target);

}  // namespace heddle::cost_model
