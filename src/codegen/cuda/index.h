// Properties of flat indices: the power of two that divides them, and how a run of lanes is cut
// into accesses.
#pragma once

#include <optional>
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

/// Neighbouring elements that the lanes of an index are, each of them in one lane or several next to each
/// other: base + 0, 0, 1, 1, as the bytes of packed pairs of weights are read.
struct LaneRun {
  Expr base;
  std::vector<int> element_of;  ///< each lane
};
std::optional<LaneRun> lane_run(const Expr& index);

inline bool fits_32_bits(Interval r) { return r.min >= INT32_MIN && r.max <= INT32_MAX; }

}  // namespace heddle::cuda
