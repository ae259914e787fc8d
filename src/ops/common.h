// Helpers of the operators: argument checks that name the operator, and broadcasting reads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"

namespace heddle::ops::impl {

using Dims = std::vector<int64_t>;

/// The operator that is being declared: its name, for messages and tags, and the caller's line.
struct Call {
  const char* op;
  Where where;
};

[[noreturn]] void fail(const Call& call, const std::string& message, const std::string& help = {});

std::string text(const Dims& dims);     ///< "(2, 3)"
std::string describe(const Tensor& t);  ///< "f32 (2, 3)"
Shape to_shape(const Dims& dims);
int64_t product(const Dims& dims);

/// Checks that `t` was assigned and has a rank in [lowest, highest]. `what` names the argument.
void check_rank(const Call& call, const Tensor& t, const char* what, int lowest, int highest = 64);
void check_float(const Call& call, const Tensor& t, const char* what);
void check_same_type(const Call& call, const Tensor& a, const Tensor& b);

/// `axis` in [0, rank); negative ones count from the back.
int normal_axis(const Call& call, int axis, int rank);
/// The same for a list, sorted; an axis given twice is an error. Empty stays empty.
std::vector<int> normal_axes(const Call& call, const std::vector<int>& axes, int rank);
/// `values` with one value for each dimension. An empty list gives `fallback`; one value applies to
/// all.
Dims per_dimension(const Call& call, const char* what, const Dims& values, int n, int64_t fallback);

/// The shape that `tensors` broadcast to, as in numpy.
Dims broadcast_dims(const Call& call, const std::vector<Tensor>& tensors);
/// Reads `t` at position `at` of a shape that it broadcasts to.
Expr read_broadcast(const Tensor& t, const std::vector<Axis>& at);

/// The type to compute in: f32 for 16-bit floats, because rounding after each of several operations
/// would lose most of their digits; otherwise `t`.
DataType wide(DataType t);
/// A converting stage, or `t` itself when it already has the type.
Tensor convert(const Call& call, const Tensor& t, DataType dtype);

/// Converts a list of handles to a list of expressions. `axes` can be used as indices.
std::vector<Expr> exprs(const std::vector<Axis>& axes);

}  // namespace heddle::ops::impl
