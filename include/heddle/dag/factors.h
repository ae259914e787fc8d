// The factors of a summed product, as units for matrices see them.
#pragma once

#include "heddle/ir/expr.h"

namespace heddle {

/// What a factor of a product reads: the load itself, or the one below a conversion or a rounding to
/// tf32. Null for all else.
const Load* read_of_factor(const Expr& factor);

/// `factor` with `read` in place of what it reads.
Expr factor_of(const Expr& factor, const Expr& read);

/// Whether both factors of the product `e` are rounded to tf32, as units for matrices round them.
bool rounds_factors(const Expr& e);

}  // namespace heddle
