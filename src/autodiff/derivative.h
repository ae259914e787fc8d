// The derivative of one expression: what reaches each of its reads.
#pragma once

#include <vector>

#include "heddle/ir/expr.h"
#include "heddle/support/function_ref.h"

namespace heddle::autodiff {

/// What `read`, a Load of the expression, receives. Where a select decides whether the read is made,
/// the value is a select of the same condition, with 0 in the other arm.
struct ReadDerivative {
  Expr read;
  Expr value;
};

/// Whether a read is one that a derivative is wanted of.
using Wanted = FunctionRef<bool(const Load&)>;

/// Whether `e` depends on a wanted read through floats alone. Conditions, indices and conversions to
/// integers carry no derivative.
bool is_differentiable(const Expr& e, Wanted wanted);

/// The derivatives of `e` with respect to each distinct wanted read, times `head`. `itself` is an
/// expression that has the value of `e` already, such as a read of the stage whose body it is; it may
/// be null. Derivatives at the points where there is none are those of PyTorch: 0 for abs and relu at
/// 0, one half for each of two equal operands of max and min, infinity for sqrt at 0.
std::vector<ReadDerivative> differentiate(const Expr& e, const Expr& head, const Expr& itself,
                                          Wanted wanted);

/// Both conditions. A null one always holds.
Expr both_of(const Expr& a, const Expr& b);
/// Sums and products that leave out zeros and ones. A null expression is 0.
Expr sum_of(const Expr& a, const Expr& b);
Expr product_of(const Expr& a, const Expr& b);

}  // namespace heddle::autodiff
