// Sums in canonical form: sum(coefficient_i * term_i) + constant over i64 scalars, like terms
// merged, in an order that does not depend on addresses.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/ir/expr.h"

namespace heddle {

/// A total order of expressions that is the same in every run: variables and buffers are ordered by
/// creation.
int compare(const Expr& a, const Expr& b);

struct LinearTerm {
  Expr expr;
  int64_t coefficient = 0;
};

struct Linear {
  std::vector<LinearTerm> terms;
  int64_t constant = 0;
  /// Set when a coefficient or the constant left i64. The form must then not be used.
  bool overflow = false;

  Linear() = default;
  explicit Linear(int64_t c) : constant(c) {}
  Linear(const Expr& term, int64_t coefficient) { add(term, coefficient); }

  bool is_constant() const { return terms.empty(); }
  /// Whether the form is exactly one term with coefficient 1.
  const Expr* as_single() const {
    return terms.size() == 1 && constant == 0 && terms[0].coefficient == 1 ? &terms[0].expr
                                                                           : nullptr;
  }

  void add(const Expr& term, int64_t coefficient) {
    if (coefficient != 0) terms.push_back({term, coefficient});
  }
  void add_constant(int64_t value, int64_t times = 1);
  void add(const Linear& other, int64_t times = 1);
  void scale(int64_t k);
  /// Sorts and merges; the functions above leave the form unsorted.
  void normalize();
  int64_t coefficient(const Expr& term) const;
};

/// a - b, normalized.
Linear difference(const Linear& a, const Linear& b);
bool same(const Linear& a, const Linear& b);
/// The greatest common divisor of the coefficients (not of the constant); 0 without terms.
int64_t gcd_of_coefficients(const Linear& a);

/// Adds `times * e`, where `e` is canonical. Sums are split into their terms, and all other
/// expressions are terms.
void collect_canonical(const Expr& e, int64_t times, Linear& out);
Linear canonical_linear(const Expr& e);
/// The expression of a normalized form.
Expr to_expr(const Linear& a);

bool has_load(const Expr& e);
/// Whether evaluating `e` where it was not evaluated before may trap, because it loads or divides
/// by a value that may be zero.
bool may_fault(const Expr& e);

}  // namespace heddle
