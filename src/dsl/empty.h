// Extents of 0: the form of a declaration where some of its elements do not exist.
//
// A body that is never evaluated reads nothing, and neither does a read of a tensor that has no
// elements, which can only stand in the arm of a select that is never taken. Both become constants
// here, so that no later part meets a loop without iterations inside of one with iterations.
#pragma once

#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle {

/// Whether one of the axes has the extent 0.
bool is_empty(const std::vector<Axis>& axes);

/// The distinct tensors that the bodies read, in order of first appearance.
std::vector<Tensor> tensors_read(const std::vector<Expr>& bodies);

/// The replacement of `bodies` that are never evaluated: 0 where the results have no elements, the
/// identity where each is reduced over nothing.
std::vector<Expr> unevaluated(const std::vector<Expr>& bodies, bool no_elements);

/// `bodies` with 0 in place of reads of tensors without elements, which are added to `unread`.
std::vector<Expr> without_empty_reads(const std::vector<Expr>& bodies, std::vector<Tensor>* unread);

}  // namespace heddle
