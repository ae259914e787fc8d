// How far right answers may lie apart, element by element: a declaration of what another computes,
// in f64, and of a bound on what rounding makes of it.
//
//   for (const BoundedOutput& o : declare_error_bounds(ComputeDag({y}))) {
//     build(..., {x, o.value, o.error});
//
// Each rounding of the declaration adds an error, and each operation hands on those of its operands
// as its condition says: a quotient by a sum that came out near zero has a large bound, one by a
// sum of positive numbers a small one (first-order analysis as in Higham, Accuracy and Stability of
// Numerical Algorithms, chapters 2 and 3). Sums of n terms are taken to be off by 4 sqrt(n) + 8
// roundings of the sum of absolute values, whatever their order (Higham and Mary, A New Approach to
// Probabilistic Rounding Error Analysis, 2019), not by the n of the worst case.
#pragma once

#include <vector>

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// An output of a declaration, declared again.
struct BoundedOutput {
  Tensor value;  ///< in f64; integers and bools in their own type
  /// At most so far (f64) is a right answer from `value`; infinite where nothing is known. Of bools
  /// (bool): whether either is right. A null tensor: the value is exact.
  Tensor error;
};

struct ErrorModel {
  /// Operands of products are rounded to tf32.
  bool tf32 = false;
  /// Sums of products may come from a form whose errors go by the largest result and not by each
  /// (Winograd's).
  bool by_largest = false;
};

/// One for each output of `dag`, which read its placeholders. Throws a user error where the
/// declaration cannot be followed: very large bodies, and reads that only a computed condition
/// keeps in bounds.
std::vector<BoundedOutput> declare_error_bounds(const ComputeDag& dag,
                                                const ErrorModel& model = {});

/// Whether something in `dag` may enlarge the errors of what it reads: a division, a root, a
/// logarithm, a decision by a computed number. Where nothing does (sums of products, activations by
/// min and max), errors are small beside the largest result.
bool may_enlarge_errors(const ComputeDag& dag);

}  // namespace heddle
