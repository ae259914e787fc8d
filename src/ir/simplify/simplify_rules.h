// Identities that linear forms do not express, as data. A test proves each row with z3.
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
  /// x, y, z, w may have any common type except bool (a select between floats).
  bool any_type = false;
  /// The rule evaluates a condition in a place where it was not evaluated before, so the condition
  /// must not fault.
  bool no_faults = false;
};

const std::vector<SimplifyRule>& simplify_rules();
/// Whether pattern variable `v` stands for constants only.
bool is_constant_wildcard(const VarNode* v);

/// The result of the first matching rule for `e`, whose children are canonical. It is not
/// simplified yet.
std::optional<Expr> apply_rules(const Expr& e, const Ranges& ranges);

}  // namespace heddle
