// Properties of flat indices: the power of two that divides them, and how a run of lanes is cut
// into accesses.
#pragma once

#include <unordered_map>
#include <vector>

#include "heddle/ir/expr.h"
#include "heddle/ir/simplify.h"

namespace heddle::cuda {

/// The largest power of two, at most 16, that is known to divide a variable; 1 for other variables.
using Divisors = std::unordered_map<const VarNode*, int>;

/// The largest power of two, at most 16, that is known to divide `e`, or the base of a Ramp.
int known_divisor(const Expr& e, const Divisors& vars);

/// `count` neighbouring lanes, from `begin` on, that one access takes.
struct Chunk {
  int begin, count;
};
/// Cuts `lanes` elements of `bytes` each, at an index that `divisor` divides, into accesses of 4, 8
/// or 16 bytes where they are aligned, of one element elsewhere.
std::vector<Chunk> cut_lanes(int lanes, int bytes, int divisor);

inline bool fits_32_bits(Interval r) { return r.min >= INT32_MIN && r.max <= INT32_MAX; }

}  // namespace heddle::cuda
