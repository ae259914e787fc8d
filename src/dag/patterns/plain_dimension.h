// Dimensions of an operand that an axis of its reader indexes as it is.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// The dimension of the operand that `axis` alone indexes, from 0 and by steps of 1, or -1. Also -1
/// where another dimension depends on the axis.
int plain_dimension(const Access& operand, const Axis& axis);
/// Whether rows of `operand` in memory run along `axis`: its last dimension is that.
bool lies_along(const Access& operand, const Axis& axis);

}  // namespace heddle::dag
