// The rule for reductions that stream memory: how many accumulators, how many rows at a time,
// whether the reduction is cut into parts.
#pragma once

#include "cpu/reduction.h"

namespace heddle::meta::cpu {

/// A default for every knob. Those of a reduction that is cut into parts begin with "part_".
Choice reduction_rule(const ReductionProblem& p);

/// Elements that are combined at once along a row of `length`: a native vector, or two of them
/// where the terms call transcendental functions and there is more than one such step. Their chains
/// of instructions hide the latency of the sum, and their constants take the registers.
int64_t terms_at_once(const ReductionProblem& p, int64_t length);

/// Accumulators of columns that half of the first cache holds; 0 where there are no columns.
int64_t columns_in_l1(const ReductionProblem& p);

/// Steps of a reduction for each core, below which it is not cut into parts.
inline constexpr int64_t kLeastStepsACore = 4;

}  // namespace heddle::meta::cpu
