// Identities that the linear form does not see, as data: a test proves each row with z3.
#pragma once

#include <optional>
#include <vector>

#include "heddle/ir/simplify.h"

namespace heddle {

/// pattern --> result, where condition (may be null) is proved. In a pattern the variables x, y, z,
/// w stand for any i64 scalar, p, q for any bool, c0, c1 for any i64 constant.
struct SimplifyRule {
  const char* name;
  Expr pattern, result;
  Expr condition;
  /// x, y, z, w may be of any one type that is no bool (a select between floats).
  bool any_type = false;
  /// Moves a condition to where it is evaluated although it was not before: it must not fault.
  bool no_faults = false;
};

const std::vector<SimplifyRule>& simplify_rules();
/// Whether pattern variable `v` stands for constants only.
bool is_constant_wildcard(const VarNode* v);

/// What the first matching rule makes of `e` (whose children are canonical): not simplified yet.
std::optional<Expr> apply_rules(const Expr& e, const Ranges& ranges);

}  // namespace heddle
