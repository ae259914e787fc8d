// Which matrices of products (dag/computed_matrix.h) are computed in the nodes that reduce them.
#pragma once

#include <vector>

#include "heddle/target/target.h"
#include "network/fusion/fusion_plan.h"
#include "network/passes/choice_list.h"

namespace heddle::network {

/// The stages of `plan` that are computed again in each node that reduces a matrix made of them, and
/// the reductions, which end nodes of their own:
///
///   q, k -> S -> exp -+-> sum of a row             S is stored once, and read by three nodes; or each
///                     +-> exp * v                  of them computes it, and it is in no memory
///                     +-> (..) * k
///
/// `choices` is asked of each product whether its matrices are, which usually is so where computing it
/// again takes less time by estimate than storing it and reading it back: fuse@S. A product that one
/// node alone multiplies on is usually stored, because kernels of single products are faster. On a CPU
/// all of more than 256 MB are inside, or of more than a quarter of PassOptions::memory.
struct FusedMatrices {
  std::vector<char> inside;  ///< by stage
  std::vector<int> sums;
};
FusedMatrices fuse_matrices(const FusionPlan& plan, const Target& target, ChoiceList& choices);

}  // namespace heddle::network
