// How far two right answers may be apart: sums in another order differ by rounding errors that grow
// with the square root of their length and with the size of what is summed.
#pragma once

#include "heddle/dag/compute_dag.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

/// For compare(): elements agree when |a-b| <= atol + rtol * |b|. Zero for integers.
struct Tolerance {
  double rtol = 0, atol = 0;
};

/// The tolerance for an output of `dag` whose right values are `reference`. `magnitude`: how large
/// partial results get, where the results themselves do not tell: a sum of very many numbers may
/// come out near zero, and its rounding errors do not. `allow_tf32` (AutoSchedulerOptions): the
/// tolerance is one for tf32, with terms of sums of the order of 1 if `magnitude` is given.
Tolerance rounding_tolerance(const ComputeDag& dag, const NDArray& reference, double magnitude = 0,
                             bool allow_tf32 = false);

}  // namespace heddle
