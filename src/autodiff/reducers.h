// What the elements of a reduction receive.
#pragma once

#include "autodiff/derivative.h"
#include "heddle/dsl/tensor.h"

namespace heddle::autodiff {

/// The derivatives of the reads of the one body of a reduction, over its spatial and reduce axes.
/// `head` is what the result receives, over its spatial axes. Throws a User error, which names the
/// stage, for a reducer that has no derivative.
///
/// sum gives all elements the same. max and min, and reducers that choose one of two operands such as
/// reduce_fmax, give all to the first element that has the result. prod gives each the product of all
/// others, in a time linear in their number; its own derivative is right where no element is 0.
std::vector<ReadDerivative> differentiate_reduction(const Operation& op, const Expr& head,
                                                    Wanted wanted);

}  // namespace heddle::autodiff
