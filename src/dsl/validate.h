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

/// Checks the form of the bodies: reductions are at the top and of one kind, and only axes of the
/// operation are used. Returns the reduce axes, which are empty when the bodies are no reductions.
std::vector<Axis> check_bodies(const std::string& name, const std::vector<Axis>& axes,
                               const std::vector<Expr>& bodies, const Where& where);

/// Checks that every read of every body is inside its tensor, and that no division of integers is
/// by what is always 0.
void check_bounds(const std::string& name, const std::vector<Axis>& axes,
                  const std::vector<Axis>& reduce_axes, const std::vector<Expr>& bodies,
                  const Where& where);

/// Whether every read of `e` is inside its tensor, where each variable of `extents` is at least 0 and
/// below its value.
bool reads_in_bounds(const std::vector<VarBinding>& extents, const Expr& e);

/// The shape as text: "(4, 8)".
std::string shape_text(const Shape& shape);

}  // namespace heddle
