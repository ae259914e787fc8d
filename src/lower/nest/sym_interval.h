// Symbolic intervals of index expressions, from which the part of a buffer that a piece of a loop
// nest reads is made (regions.h).
#pragma once

#include <unordered_map>
#include <vector>

#include "heddle/ir/simplify.h"

namespace heddle::lowering {

/// Values from `lo` to `hi`, which are expressions of the variables in scope. `exact` when both
/// ends are reached, so that elements in bounds have a hull in bounds.
struct SymInterval {
  Expr lo, hi;
  bool exact = true;
  bool bounded() const { return static_cast<bool>(lo); }
};

using SymEnv = std::unordered_map<const VarNode*, SymInterval>;

/// The interval of an index expression, where variables of `env` range over their intervals and all
/// others are fixed. Unbounded (null ends) where the expression cannot be analysed.
SymInterval interval_of(const Expr& e, const SymEnv& env, const Ranges& ranges);

/// No value of `e` is larger, whatever values the variables of `ranges` have. Tighter than range_of
/// where a minimum hides that terms cancel: of min(8*b + 7, 124) - 8*b + 1 it is 8.
int64_t upper_bound(const Expr& e, const Ranges& ranges);

/// The smallest interval that holds both.
SymInterval hull(const SymInterval& a, const SymInterval& b, const Ranges& ranges);

}  // namespace heddle::lowering
