// An expression in f64 together with a bound on its error.
#pragma once

#include <unordered_map>
#include <vector>

#include "heddle/ir/expr.h"
#include "heddle/support/function_ref.h"

namespace heddle::dag {

/// A value and how far it may be off.
struct Bounded {
  Expr value;  ///< f64 for every float type, else of its own type
  Expr error;  ///< f64; of a bool: a bool, whether it is uncertain. Null: exact.
};

/// The unit roundoff of a float type.
double unit_roundoff(DataType t);
/// An error bound in f64 of a number whose `value` is stored as `t`: infinite where `t` overflows.
Expr stored_error(DataType t, const Expr& value, const Expr& error);
/// What one rounding to `t` may do to `value` (f64), times `roundings`; nothing to an infinity.
Expr rounding_error(DataType t, const Expr& value, double roundings);
/// The sum of two bounds, either of which may be null.
Expr add_errors(const Expr& a, const Expr& b);

/// Follows expressions of a declaration.
class ErrorExpr {
 public:
  /// `variables`: what an axis or a component of a combiner stands for. `load`: what a read is, at
  /// indices that are followed already.
  ErrorExpr(std::vector<std::pair<Var, Bounded>> variables,
            FunctionRef<Bounded(const Load&, std::vector<Expr>)> load)
      : variables_(std::move(variables)), load_(load) {}

  /// Throws a user error where the result would be too large a tree.
  Bounded follow(const Expr& e);

 private:
  Bounded make(const Expr& e);
  Bounded variable(const Expr& e) const;
  Bounded cast_of(const Cast& c);
  Bounded unary(const Unary& u);
  Bounded binary(const Binary& b);
  Bounded arithmetic(const Binary& b, const Bounded& x, const Bounded& y);
  Bounded select_of(const Select& s);
  Bounded read(const Load& l);

  std::vector<std::pair<Var, Bounded>> variables_;
  FunctionRef<Bounded(const Load&, std::vector<Expr>)> load_;
  std::unordered_map<const ExprNode*, Bounded> known_;
  std::vector<Expr> kept_;  ///< what known_ points to
};

}  // namespace heddle::dag
