// An expression in f64 together with a bound on its error.
#pragma once

#include <unordered_map>
#include <vector>

#include "heddle/ir/expr.h"
#include "heddle/support/function_ref.h"

namespace heddle::dag {

/// A value and the bound of its error.
struct Bounded {
  Expr value;  ///< f64 for every float type, else of its own type
  Expr error;  ///< f64; for a bool, a bool that tells whether it is uncertain. Null: exact.
};

/// The unit roundoff of a float type.
double unit_roundoff(DataType t);
/// An error bound in f64 of a number whose `value` is stored as `t`: infinite where `t` overflows.
Expr stored_error(DataType t, const Expr& value, const Expr& error);
/// The largest error of one rounding of `value` (f64) to `t`, times `roundings`. It is 0 for an
/// infinity.
Expr rounding_error(DataType t, const Expr& value, double roundings);
/// The sum of two bounds, either of which may be null.
Expr add_errors(const Expr& a, const Expr& b);

/// Computes values and error bounds of the expressions of a declaration.
class ErrorExpr {
 public:
  /// `variables` gives the replacement of an axis or of a component of a combiner. `load` gives the
  /// replacement of a read at indices that were processed already.
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
  std::vector<Expr> kept_;  ///< keeps the nodes alive that known_ points to
};

}  // namespace heddle::dag
