// Sums of deviations from a mean, which are 0: what a mean receives through a variance.
//
//   m(i) = (sum over j of x(i, j)) / n       v(i) = sum over j of (x(i, j) - m(i))^2
//   m.grad(i) = .. + sum over j of -2 v.grad(i) (x(i, j) - m(i))
#pragma once

#include <vector>

#include "autodiff/inverse.h"
#include "heddle/ir/expr.h"

namespace heddle::autodiff {

/// Whether the sum of `value` over all of `loops` is 0 up to rounding, because it is a sum of deviations
/// of elements from their mean, each times what does not depend on the loops.
bool sums_deviations(const Expr& value, const std::vector<Loop>& loops);

}  // namespace heddle::autodiff
