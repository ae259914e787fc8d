// How often expressions load what other stages store.
#pragma once

#include <unordered_map>
#include <vector>

#include "heddle/ir/expr.h"

namespace heddle {

/// For each stage that is read (Buffer::producer), the loads of it in the trees that the expressions stand for: a node
/// that several share counts once for each path to it.
using LoadCounts = std::unordered_map<const RefCounted*, double>;
LoadCounts count_loads(const std::vector<Expr>& bodies);

}  // namespace heddle
