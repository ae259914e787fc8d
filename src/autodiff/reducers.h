// What the elements of a reduction receive.
#pragma once

#include "autodiff/derivative.h"
#include "heddle/autodiff/gradient.h"
#include "heddle/dsl/tensor.h"

namespace heddle::autodiff {

/// The derivatives of the reads of a reduction, over its spatial and reduce axes. `head` is what
/// component `output` of the result receives, over its spatial axes. Throws a User error, which names
/// the stage, for a reducer that has no derivative and for which `declared` has none.
///
/// sum gives all elements the same. max and min, and reducers that choose one of two operands such as
/// reduce_fmax, give all to the first element that has the result. prod gives each the product of all
/// others, in a time linear in their number; its own derivative is right where no element is 0. A
/// component of a tuple is one of these by itself, or is chosen by a condition on all components: then
/// the element whose place the same choices lead to receives all.
std::vector<ReadDerivative> differentiate_reduction(const Operation& op, int output,
                                                    const Expr& head, Wanted wanted,
                                                    const std::vector<ReducerDerivative>& declared);

/// The derivative that is declared for the reducer of `op`; null where there is none.
const ReducerDerivative* declared_derivative(const Operation& op,
                                             const std::vector<ReducerDerivative>& declared);

}  // namespace heddle::autodiff
