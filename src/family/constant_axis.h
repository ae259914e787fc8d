// Cores that share an axis of constant length, in place of one whose length varies.
#pragma once

#include <optional>

#include "family/axes.h"
#include "family/blocks.h"

namespace heddle::family {

struct ConstantShares {
  StepChanges changes;
  int64_t parts = 1;  ///< of the constant axis; it divides the number of cores
  int loop = -1;      ///< the parallel loop
};

/// Where blocks of an axis of varying length run in parallel with blocks of a constant one, such as
/// the columns of a product, each core can have its part of the constant axis at every size:
///
///     parallel for row block, column block { .. }
///     parallel for column block, row block { .. }     column blocks: one or more for each core
///
/// Loops are shared out in runs of neighbouring iterations, so the constant axis becomes the outer
/// one. nullopt where there is no such loop, or the axis has no even parts of some length.
std::optional<ConstantShares> share_constant_axis(const Schedule& at_one_size,
                                                  const FamilyAxes& axes);

}  // namespace heddle::family
