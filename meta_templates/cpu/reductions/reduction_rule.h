// The rule for reductions that stream memory. It chooses the number of accumulators, the rows at a
// time, and whether the reduction is cut into parts.
#pragma once

#include "cpu/reductions/reduction.h"

namespace heddle::meta::cpu {

/// A default for every knob. Names of knobs for the parts of a reduction begin with "part_".
Choice reduction_rule(const ReductionProblem& p);

/// The number of elements that are combined at once along a row of `length`. It is one native
/// vector, or two where the terms call transcendental functions and there is more than one such
/// step. The chains of instructions of two vectors hide the latency of the sum, and their constants
/// take the registers.
int64_t terms_at_once(const ReductionProblem& p, int64_t length);

/// The number of accumulators of columns that half of L1 holds; 0 where there are no columns.
int64_t columns_in_l1(const ReductionProblem& p);

/// A reduction with fewer steps for each core is not cut into parts.
inline constexpr int64_t kLeastStepsACore = 4;

}  // namespace heddle::meta::cpu
