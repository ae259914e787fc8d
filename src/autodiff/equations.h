// Linear equations over bounded integers, for `invert`.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::autodiff {

/// A bounded integer: an axis of the stage, or a quotient or remainder of an index.
struct Unknown {
  Var var;
  int64_t lo = 0, hi = 0;  ///< the least and the largest value it can have
  Expr extent;             ///< where its values are [0, extent) and this must be checked; else null
  Expr value;              ///< once solved, in terms of known values and other unknowns
  int64_t count() const { return hi - lo + 1; }
};

/// sum of coefficient * unknown == rhs, whose other values are known.
struct Equation {
  std::map<int, int64_t> terms;  ///< unknown -> coefficient, not 0
  Expr rhs;
};

/// The unknowns of index expressions and the equations between them.
class Equations {
 public:
  /// The axes are the first unknowns. `indices` are all that will be added.
  Equations(const std::vector<Axis>& axes, const std::vector<Expr>& indices);

  /// Adds `index` == `known`. False where the index has no linear form; then nothing is added.
  bool add(const Expr& index, const Expr& known);

  std::vector<Unknown> unknowns;
  std::vector<Equation> open;

  int add_unknown(const char* name, int64_t lo, int64_t hi, Expr extent);
  /// Unknown `u` is `value` + the sum of `terms` from now on.
  void solve(int u, const Expr& value, const std::map<int, int64_t>& terms = {});
  /// Unknown `u` counts as known from now on: it is summed over.
  void keep(int u);

 private:
  struct Form {
    std::map<int, int64_t> terms;
    Expr known;  ///< null for 0
  };
  /// floordiv(floormod(of, high), low); `high` is 0 for no remainder. `low` divides `high`.
  struct Part {
    Expr of;
    int64_t low = 1, high = 0;
  };
  /// A number as digits to the bases of its divisors d1 | d2 | ..:
  /// of = d1 q1 + m1, q1 = (d2 / d1) q2 + m2, ..
  struct Digits {
    Expr of;
    std::vector<int64_t> divisors;           ///< ascending
    std::vector<int> quotients, remainders;  ///< unknowns; empty before they are needed
  };
  std::optional<Form> linear(const Expr& e);
  static Part part_of(const Expr& e);
  void collect(const Expr& e);
  void add_divisor(const Expr& of, int64_t divisor);
  Digits* digits_of(const Part& part);
  bool write_digits(Digits* digits);
  std::optional<Form> form_of(const Part& part);
  static void add_scaled(Form* to, const Form& from, int64_t times);
  bool depends_on_unknown(const Expr& e) const;

  std::vector<Digits> digits_;
};

}  // namespace heddle::autodiff
