// Checks of declarations. Each function throws a user error that names the tensor.
#pragma once

#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle {

/// Extents are integer constants, at least 0 (folded first), or sums of dimensions (dim.h), at
/// least 1; `what` is "dimension 0 of 'A'".
Expr check_extent(const Expr& extent, const std::string& what, const Where& where);
Shape check_shape(const Shape& shape, const std::string& name, const Where& where);

/// The form of the bodies: reductions at the top, all of one kind; only own axes are used. Returns
/// the reduce axes (empty when the bodies are no reduction).
std::vector<Axis> check_bodies(const std::string& name, const std::vector<Axis>& axes,
                               const std::vector<Expr>& bodies, const Where& where);

/// Every read of every body lies inside its tensor.
void check_bounds(const std::string& name, const std::vector<Axis>& axes,
                  const std::vector<Axis>& reduce_axes, const std::vector<Expr>& bodies,
                  const Where& where);

/// "(4, 8)"
std::string shape_text(const Shape& shape);

}  // namespace heddle
