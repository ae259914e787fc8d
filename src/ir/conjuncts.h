// The parts of a condition that all have to hold.
#pragma once

#include <vector>

#include "heddle/ir/expr.h"

namespace heddle {

/// Adds the conditions that `condition` joins by "and", from left to right.
void add_conjuncts(const Expr& condition, std::vector<Expr>& to);

}  // namespace heddle
