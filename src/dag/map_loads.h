// Replaces the reads of the bodies of a stage.
#pragma once

#include <vector>

#include "heddle/ir/expr.h"
#include "heddle/support/function_ref.h"

namespace heddle::dag {

/// `bodies` with each read replaced by the result of `fn`. A read in the index of another read is
/// replaced first. Bodies that share nodes, such as the components of a tuple reduction, share them
/// afterwards too.
std::vector<Expr> map_loads(const std::vector<Expr>& bodies, FunctionRef<Expr(const Load&)> fn);

}  // namespace heddle::dag
