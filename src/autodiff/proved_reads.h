// Reads that are in bounds for a reason that the checks of declarations do not see.
#pragma once

#include <vector>

#include "heddle/ir/expr.h"

namespace heddle::autodiff {

/// `e` with the indices of a read clamped where it is not proved under the conditions around it that
/// they are in bounds. They are, because the read was in bounds in the stage that was differentiated;
/// but the proof may need several of its bounds at a time. Each variable of `extents` is at least 0
/// and below its value.
Expr with_proved_reads(const std::vector<VarBinding>& extents, const Expr& e);

}  // namespace heddle::autodiff
