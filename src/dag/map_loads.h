// Bodies of a stage that read other tensors than they did.
#pragma once

#include <vector>

#include "heddle/ir/expr.h"
#include "heddle/support/function_ref.h"

namespace heddle::dag {

/// `bodies` with each read replaced by what `fn` makes of it; a read in the index of another first.
/// What they share (the components of a tuple reduction: their sources), they share afterwards.
std::vector<Expr> map_loads(const std::vector<Expr>& bodies, FunctionRef<Expr(const Load&)> fn);

}  // namespace heddle::dag
