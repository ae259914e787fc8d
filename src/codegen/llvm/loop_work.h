// How much work a loop is for the sizes of a call.
#pragma once

#include "heddle/ir/stmt.h"

namespace heddle::codegen {

/// Below this number of operations a parallel region costs more than it saves. The meta-templates
/// decide by the same number where extents are constant.
inline constexpr double kLeastParallelWork = 2e5;

/// About the number of operations of all iterations of `loop`: arithmetic, elements moved, and a
/// multiple of these for slow functions. An f64 expression of what has a value in front of the
/// loop. A branch or an inner loop counts as in the first iteration of the loops around it.
Expr work_of(const For& loop);

}  // namespace heddle::codegen
