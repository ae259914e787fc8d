// Bounds of a product as padding of its factors.
#pragma once

#include <optional>
#include <vector>

#include "autodiff/inverse.h"
#include "heddle/ir/simplify.h"

namespace heddle::autodiff {

/// `value`, a product of two or more reads, with zeros around those factors whose indices leave their
/// tensors where a bound does not hold:
///
///   select(0 <= p - r && p - r < 14, G(n, k, p - r) * W(k, c, r), 0)
///   G.pad(n, k, p - r + 2) * W(k, c, r)
///
/// Nothing where a bound is not of the index of a factor, or where another read leaves its tensor.
std::optional<Expr> pad_factors(const Expr& value, const std::vector<Bound>& bounds,
                                const Ranges& ranges, const Where& where);

}  // namespace heddle::autodiff
