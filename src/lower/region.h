// Symbolic interval analysis: which part of a buffer a piece of a loop nest reads.
#pragma once

#include <unordered_map>
#include <vector>

#include "heddle/ir/simplify.h"

namespace heddle {

/// Values from `lo` to `hi`, both expressions of the variables in scope; `exact` when both ends are
/// taken, so that in-bounds elements have an in-bounds hull.
struct SymInterval {
  Expr lo, hi;
  bool exact = true;
  bool bounded() const { return static_cast<bool>(lo); }
};

using SymEnv = std::unordered_map<const VarNode*, SymInterval>;

/// The interval of an index expression, variables of `env` ranging over theirs and all others
/// fixed. Unbounded (null ends) where the expression is beyond the analysis.
SymInterval interval_of(const Expr& e, const SymEnv& env, const Ranges& ranges);

/// The smallest interval that holds both.
SymInterval hull(const SymInterval& a, const SymInterval& b, const Ranges& ranges);

}  // namespace heddle
