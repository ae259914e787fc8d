// The numbers in a formula, such as the scale of a tensor of bytes.
#pragma once

#include <span>
#include <vector>

#include "heddle/ir/expr.h"

namespace heddle::network {

/// The numbers outside of indices, in an order that is the same for expressions of one form: floats, and
/// integers of 32 bits, which zero points are.
std::vector<Expr> numbers_of(const Expr& e);
/// The expression with others in their place, as many.
Expr with_numbers(const Expr& e, std::span<const Expr> numbers);

}  // namespace heddle::network
