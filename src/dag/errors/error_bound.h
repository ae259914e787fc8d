// Bounds of the difference of two correct results, element by element. From a declaration it makes
// another one, which computes the same values in f64 and a bound of their rounding errors.
//
//   for (const BoundedOutput& o : declare_error_bounds(ComputeDag({y}))) {
//     build(..., {x, o.value, o.error});
//
// Each rounding of the declaration adds an error, and each operation propagates those of its
// operands by its condition number. A quotient by a sum near zero has a large bound, one by a sum
// of positive numbers a small one (first-order analysis as in Higham, Accuracy and Stability of
// Numerical Algorithms, chapters 2 and 3). The error of a sum of n terms in any order is taken to
// be 4 sqrt(n) + 8 roundings of the sum of absolute values (Higham and Mary, A New Approach to
// Probabilistic Rounding Error Analysis, 2019), and not the n roundings of the worst case.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// An output of a declaration with its error bound.
struct BoundedOutput {
  Tensor value;  ///< in f64; integers and bools in their own type
  /// The largest difference (f64) of a correct result from `value`; infinite where it is not known.
  /// For bools (bool): whether both values are correct. A null tensor means that the value is
  /// exact.
  Tensor error;
};

/// Sources of error beyond the rounding of each operation.
struct ErrorModel {
  /// Operands of products are rounded to tf32.
  bool tf32 = false;
  /// Sums of products may come from a form such as Winograd, whose errors are relative to the
  /// largest result and not to each result.
  bool by_largest = false;
};

/// One for each output of `dag`; they read its placeholders. Throws a user error where the
/// declaration cannot be analysed: for very large bodies, and for reads that only a computed
/// condition keeps in bounds.
std::vector<BoundedOutput> declare_error_bounds(const ComputeDag& dag,
                                                const ErrorModel& model = {});

/// Whether an operation of `dag` may enlarge the errors of its operands: a division, a root, a
/// logarithm, a decision by a computed number. Where none does (sums of products, activations by
/// min and max), errors are small relative to the largest result.
bool may_enlarge_errors(const ComputeDag& dag);

}  // namespace heddle
