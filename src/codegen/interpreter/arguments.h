// Binding the caller's arrays to buffers.
#pragma once

#include <string>
#include <vector>

#include "codegen/interpreter/compile.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::interp {

/// Makes `array` the contents of `buffer`. Where type or shape differ, throws a user error that
/// names the buffer as `role` 'name'. A dimension that is an unbound variable is bound to the
/// extent of the array.
void bind_argument(Compiler& exprs, const Buffer& buffer, const NDArray& array, const char* role);

/// The extents of `shape`, evaluated.
std::vector<std::int64_t> evaluate_shape(Compiler& exprs, const std::vector<Expr>& shape);

}  // namespace heddle::interp
