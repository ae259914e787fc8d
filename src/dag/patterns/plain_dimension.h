// Dimensions of an operand that an axis of its reader indexes as it is.
#pragma once

#include <span>

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// The dimension of the operand that `axis` alone indexes, from 0 and by steps of 1, or -1. Also -1
/// where another dimension depends on the axis.
int plain_dimension(const Access& operand, const Axis& axis);
/// The same where `axis` may begin at a multiple of its extent that no axis of `tile` moves: heads that lie
/// side by side are lines of a tensor so.
int plain_dimension(const Access& operand, const Axis& axis, std::span<const Axis> tile);
/// Whether rows of `operand` in memory run along `axis`: its last dimension is that.
bool lies_along(const Access& operand, const Axis& axis);

}  // namespace heddle::dag
