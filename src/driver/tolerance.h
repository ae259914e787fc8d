// The tolerance of checks: how far two correct results may differ. Sums in another order differ by
// rounding errors, which grow with the square root of their length and with the size of their
// terms.
#pragma once

#include "heddle/dag/compute_dag.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::driver {

/// The tolerance of compare(): elements agree when |a-b| <= atol + rtol * |b|. Both are zero for
/// integers.
struct Tolerance {
  double rtol = 0, atol = 0;
};

/// The tolerance for an output of `dag` whose correct values are `reference`. `magnitude` is the
/// size of partial results, where it exceeds that of the results: a sum of very many numbers may be
/// near zero while its rounding errors are not. With `allow_tf32` (AutoSchedulerOptions) the
/// tolerance is one for tf32, as where `dag` rounds factors to it. If `magnitude` is given, terms of sums are taken to be of the order
/// of 1.
Tolerance rounding_tolerance(const ComputeDag& dag, const NDArray& reference, double magnitude = 0,
                             bool allow_tf32 = false);

}  // namespace heddle::driver
