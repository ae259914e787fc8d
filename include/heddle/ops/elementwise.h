// Element-wise operators. All broadcast as numpy does: shapes are aligned at the last dimension,
// and an extent of 1 is repeated. Operands of one operator have one type; `cast` converts.
//
//   Tensor y = ops::relu(ops::add(x, bias));       // x: (N, C), bias: (C)
//   Tensor z = ops::elementwise("swish2", {x}, [](const std::vector<Expr>& v) {
//     return v[0] / (1.f + exp(v[0] * -2.f));
//   });
//
// Functions such as exp and gelu take floats only; on f16 and bf16 a function of several steps is
// computed in f32 and rounded once.
#pragma once

#include <concepts>
#include <string>
#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/support/function_ref.h"

namespace heddle::ops {

/// Applies `f` to the elements of `inputs`, broadcast against each other. `name` is the name and
/// the tag of the stage.
Tensor elementwise(const std::string& name, const std::vector<Tensor>& inputs,
                   FunctionRef<Expr(const std::vector<Expr>&)> f, Where where = Where::current());

/// Converts each element. Float to int truncates; a conversion to bool is `x != 0`.
Tensor cast(const Tensor& x, DataType dtype, Where where = Where::current());
/// A copy of x, as a stage of its own.
Tensor identity(const Tensor& x, Where where = Where::current());
/// A tensor whose elements all have one value: part of a declaration and no array (zeros_like in
/// dsl/arrays.h makes arrays). A value that `dtype` does not hold is a User error.
Tensor full(const Shape& shape, double value, DataType dtype = f32, Where where = Where::current());
/// Tensors of zeros and of ones; see full.
Tensor zeros(const Shape& shape, DataType dtype = f32, Where where = Where::current());
Tensor ones(const Shape& shape, DataType dtype = f32, Where where = Where::current());
/// The same with extents that are numbers, such as those of another tensor: full(x.extents(), 1).
template <std::integral I>
Tensor full(const std::vector<I>& extents, double value, DataType dtype = f32,
            Where where = Where::current()) {
  return full(Shape(extents.begin(), extents.end()), value, dtype, where);
}
template <std::integral I>
Tensor zeros(const std::vector<I>& extents, DataType dtype = f32, Where where = Where::current()) {
  return zeros(Shape(extents.begin(), extents.end()), dtype, where);
}
template <std::integral I>
Tensor ones(const std::vector<I>& extents, DataType dtype = f32, Where where = Where::current()) {
  return ones(Shape(extents.begin(), extents.end()), dtype, where);
}

// ---- arithmetic. The right operand may be a number, such as add(x, 1.5) ----
Tensor add(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor sub(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor mul(const Tensor& a, const Tensor& b, Where where = Where::current());
/// Truncates for integers.
Tensor div(const Tensor& a, const Tensor& b, Where where = Where::current());
/// The same with a number or an expression as the right operand.
Tensor add(const Tensor& a, const Expr& b, Where where = Where::current());
Tensor sub(const Tensor& a, const Expr& b, Where where = Where::current());
Tensor mul(const Tensor& a, const Expr& b, Where where = Where::current());
Tensor div(const Tensor& a, const Expr& b, Where where = Where::current());
/// Rounds towards minus infinity.
Tensor floor_divide(const Tensor& a, const Tensor& b, Where where = Where::current());
/// The remainder with the sign of `b`, as numpy and ONNX (fmod=0).
Tensor mod(const Tensor& a, const Tensor& b, Where where = Where::current());
/// The remainder with the sign of `a`, as C.
Tensor fmod(const Tensor& a, const Tensor& b, Where where = Where::current());
/// a to the power b.
Tensor pow(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor pow(const Tensor& a, double exponent, Where where = Where::current());
/// The angle of the point (x, y) in radians, in [-pi, pi].
Tensor atan2(const Tensor& y, const Tensor& x, Where where = Where::current());
/// The larger and the smaller element; NaN where an operand is NaN.
Tensor maximum(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor minimum(const Tensor& a, const Tensor& b, Where where = Where::current());

// ---- comparisons and logic. The results are bool; the operands of logic are bool, too ----
Tensor equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor not_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor less(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor less_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor greater(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor greater_equal(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor logical_and(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor logical_or(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor logical_xor(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor logical_not(const Tensor& x, Where where = Where::current());
/// `a` where `condition` (bool) holds, else `b`.
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b,
             Where where = Where::current());

// ---- integers and bools, bit by bit. A right shift of a signed type is arithmetic ----
Tensor bitwise_and(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor bitwise_or(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor bitwise_xor(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor bitwise_not(const Tensor& x, Where where = Where::current());
/// `a` shifted by `b` bits, which must be less than the width of the type.
Tensor shift_left(const Tensor& a, const Tensor& b, Where where = Where::current());
Tensor shift_right(const Tensor& a, const Tensor& b, Where where = Where::current());

// ---- functions of one operand. The name is that of C, numpy or PyTorch ----
Tensor neg(const Tensor& x, Where where = Where::current());
Tensor abs(const Tensor& x, Where where = Where::current());
Tensor sign(const Tensor& x, Where where = Where::current());  ///< -1, 0 or 1
Tensor square(const Tensor& x, Where where = Where::current());
/// 1 / x.
Tensor reciprocal(const Tensor& x, Where where = Where::current());
Tensor exp(const Tensor& x, Where where = Where::current());
/// 2 to the power x.
Tensor exp2(const Tensor& x, Where where = Where::current());
/// exp(x) - 1, accurate near 0.
Tensor expm1(const Tensor& x, Where where = Where::current());
Tensor log(const Tensor& x, Where where = Where::current());
Tensor log2(const Tensor& x, Where where = Where::current());
Tensor log10(const Tensor& x, Where where = Where::current());
/// log(1 + x), accurate near 0.
Tensor log1p(const Tensor& x, Where where = Where::current());
Tensor sqrt(const Tensor& x, Where where = Where::current());
/// 1 / sqrt(x).
Tensor rsqrt(const Tensor& x, Where where = Where::current());
Tensor sin(const Tensor& x, Where where = Where::current());
Tensor cos(const Tensor& x, Where where = Where::current());
Tensor tan(const Tensor& x, Where where = Where::current());
Tensor asin(const Tensor& x, Where where = Where::current());
Tensor acos(const Tensor& x, Where where = Where::current());
Tensor atan(const Tensor& x, Where where = Where::current());
Tensor sinh(const Tensor& x, Where where = Where::current());
Tensor cosh(const Tensor& x, Where where = Where::current());
Tensor tanh(const Tensor& x, Where where = Where::current());
/// Accurate near 0 and of the largest numbers, whose squares are no numbers.
Tensor asinh(const Tensor& x, Where where = Where::current());
Tensor acosh(const Tensor& x, Where where = Where::current());
Tensor atanh(const Tensor& x, Where where = Where::current());
/// The error function.
Tensor erf(const Tensor& x, Where where = Where::current());
Tensor floor(const Tensor& x, Where where = Where::current());
Tensor ceil(const Tensor& x, Where where = Where::current());
Tensor round(const Tensor& x, Where where = Where::current());  ///< half to even
Tensor trunc(const Tensor& x, Where where = Where::current());
/// Whether an element is NaN, or infinite. The result is bool.
Tensor isnan(const Tensor& x, Where where = Where::current());
Tensor isinf(const Tensor& x, Where where = Where::current());

// ---- activations ----
/// max(low, min(high, x)), for integers too.
Tensor clip(const Tensor& x, double low, double high, Where where = Where::current());
/// max(x, 0).
Tensor relu(const Tensor& x, Where where = Where::current());
/// min(max(x, 0), 6).
Tensor relu6(const Tensor& x, Where where = Where::current());
/// x where x >= 0, else alpha * x.
Tensor leaky_relu(const Tensor& x, double alpha = 0.01, Where where = Where::current());
/// x where x >= 0, else slope * x; `slope` broadcasts to x (for channels of NCHW: (C, 1, 1)).
Tensor prelu(const Tensor& x, const Tensor& slope, Where where = Where::current());
/// x where x >= 0, else alpha * (exp(x) - 1).
Tensor elu(const Tensor& x, double alpha = 1.0, Where where = Where::current());
/// The scaled elu of Klambauer et al. 2017 (arXiv:1706.02515), with its constants.
Tensor selu(const Tensor& x, Where where = Where::current());
/// 1 / (1 + exp(-x)).
Tensor sigmoid(const Tensor& x, Where where = Where::current());
/// x * P(N(0, 1) < x), computed by erf.
Tensor gelu(const Tensor& x, Where where = Where::current());
/// The approximation of gelu by tanh.
Tensor gelu_tanh(const Tensor& x, Where where = Where::current());
Tensor silu(const Tensor& x, Where where = Where::current());  ///< x * sigmoid(x)
/// log(1 + exp(x)), without overflow.
Tensor softplus(const Tensor& x, Where where = Where::current());
/// x / (1 + abs(x)).
Tensor softsign(const Tensor& x, Where where = Where::current());
Tensor mish(const Tensor& x, Where where = Where::current());  ///< x * tanh(softplus(x))
/// max(0, min(1, alpha * x + beta)); ONNX's default of alpha is 0.2.
Tensor hardsigmoid(const Tensor& x, double alpha = 1.0 / 6, double beta = 0.5,
                   Where where = Where::current());
Tensor hardswish(const Tensor& x, Where where = Where::current());  ///< x * hardsigmoid(x)

}  // namespace heddle::ops
