#include "heddle/ops/elementwise.h"

#include <utility>

#include "ops/common.h"

namespace heddle::ops {
namespace {

using impl::Call;

Tensor filled(const Call& call, const Shape& shape, double value, DataType dtype) {
  return compute(
      shape, [&](const std::vector<Axis>&) { return make_const(dtype, value); }, call.op, call.op,
      call.where);
}

template <class F>
Tensor unary(const Call& call, const Tensor& x, F f) {
  impl::check_rank(call, x, "x", 0);
  return compute(
      x.shape(), [&](const std::vector<Axis>& i) { return Expr(f(x(i))); }, call.op, call.op,
      call.where);
}

template <class F>
Tensor float_unary(const Call& call, const Tensor& x, F f) {
  impl::check_rank(call, x, "x", 0);
  impl::check_float(call, x, "x");
  return unary(call, x, f);
}

template <class F>
Tensor binary(const Call& call, const Tensor& a, const Tensor& b, F f) {
  impl::check_rank(call, a, "a", 0);
  impl::check_rank(call, b, "b", 0);
  impl::check_same_type(call, a, b);
  return compute(
      impl::to_shape(impl::broadcast_dims(call, {a, b})),
      [&](const std::vector<Axis>& i) {
        return Expr(f(impl::read_broadcast(a, i), impl::read_broadcast(b, i)));
      },
      call.op, call.op, call.where);
}

}  // namespace

Tensor elementwise(const std::string& name, const std::vector<Tensor>& inputs,
                   FunctionRef<Expr(const std::vector<Expr>&)> f, Where where) {
  const impl::Dims dims = impl::broadcast_dims({name.c_str(), where}, inputs);
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> values;
        for (const Tensor& t : inputs) values.push_back(impl::read_broadcast(t, i));
        return f(values);
      },
      name, name, where);
}

Tensor cast(const Tensor& x, DataType dtype, Where where) {
  return unary({"cast", where}, x, [&](const Expr& v) { return heddle::cast(dtype, v); });
}

Tensor identity(const Tensor& x, Where where) {
  return unary({"identity", where}, x, [](const Expr& v) { return v; });
}

Tensor full(const Shape& shape, double value, DataType dtype, Where where) {
  return filled({"full", where}, shape, value, dtype);
}
Tensor zeros(const Shape& shape, DataType dtype, Where where) {
  return filled({"zeros", where}, shape, 0, dtype);
}
Tensor ones(const Shape& shape, DataType dtype, Where where) {
  return filled({"ones", where}, shape, 1, dtype);
}

Tensor add(const Tensor& a, const Tensor& b, Where where) {
  return binary({"add", where}, a, b, [](const Expr& x, const Expr& y) { return x + y; });
}
Tensor sub(const Tensor& a, const Tensor& b, Where where) {
  return binary({"sub", where}, a, b, [](const Expr& x, const Expr& y) { return x - y; });
}
Tensor mul(const Tensor& a, const Tensor& b, Where where) {
  return binary({"mul", where}, a, b, [](const Expr& x, const Expr& y) { return x * y; });
}
Tensor div(const Tensor& a, const Tensor& b, Where where) {
  return binary({"div", where}, a, b, [](const Expr& x, const Expr& y) { return x / y; });
}
Tensor add(const Tensor& a, const Expr& b, Where where) {
  return unary({"add", where}, a, [&](const Expr& x) { return x + b; });
}
Tensor sub(const Tensor& a, const Expr& b, Where where) {
  return unary({"sub", where}, a, [&](const Expr& x) { return x - b; });
}
Tensor mul(const Tensor& a, const Expr& b, Where where) {
  return unary({"mul", where}, a, [&](const Expr& x) { return x * b; });
}
Tensor div(const Tensor& a, const Expr& b, Where where) {
  return unary({"div", where}, a, [&](const Expr& x) { return x / b; });
}

Tensor floor_divide(const Tensor& a, const Tensor& b, Where where) {
  return binary({"floor_divide", where}, a, b, [](const Expr& x, const Expr& y) {
    return x.dtype().is_float() ? heddle::floor(x / y) : floordiv(x, y);
  });
}

Tensor mod(const Tensor& a, const Tensor& b, Where where) {
  return binary({"mod", where}, a, b, [](const Expr& x, const Expr& y) {
    if (!x.dtype().is_float()) return floormod(x, y);
    // C's remainder is exact, unlike x - floor(x / y) * y.
    const Expr r = x % y, zero = make_float(x.dtype(), 0);
    return select(r != zero && (r < zero) != (y < zero), r + y, r);
  });
}

Tensor fmod(const Tensor& a, const Tensor& b, Where where) {
  return binary({"fmod", where}, a, b, [](const Expr& x, const Expr& y) { return x % y; });
}

Tensor pow(const Tensor& a, const Tensor& b, Where where) {
  const Call call{"pow", where};
  impl::check_rank(call, a, "a", 0);
  impl::check_float(call, a, "a");
  return binary(call, a, b, [](const Expr& x, const Expr& y) { return heddle::pow(x, y); });
}

Tensor pow(const Tensor& a, double exponent, Where where) {
  return float_unary({"pow", where}, a, [&](const Expr& x) {
    if (exponent == 2) return x * x;
    if (exponent == 3) return x * x * x;
    if (exponent == 0.5) return heddle::sqrt(x);
    return heddle::pow(x, make_float(x.dtype(), exponent));
  });
}

Tensor atan2(const Tensor& y, const Tensor& x, Where where) {
  return binary({"atan2", where}, y, x,
                [](const Expr& u, const Expr& v) { return heddle::atan2(u, v); });
}
Tensor maximum(const Tensor& a, const Tensor& b, Where where) {
  return binary({"maximum", where}, a, b, [](const Expr& x, const Expr& y) { return max(x, y); });
}
Tensor minimum(const Tensor& a, const Tensor& b, Where where) {
  return binary({"minimum", where}, a, b, [](const Expr& x, const Expr& y) { return min(x, y); });
}
Tensor equal(const Tensor& a, const Tensor& b, Where where) {
  return binary({"equal", where}, a, b, [](const Expr& x, const Expr& y) { return x == y; });
}
Tensor not_equal(const Tensor& a, const Tensor& b, Where where) {
  return binary({"not_equal", where}, a, b, [](const Expr& x, const Expr& y) { return x != y; });
}
Tensor less(const Tensor& a, const Tensor& b, Where where) {
  return binary({"less", where}, a, b, [](const Expr& x, const Expr& y) { return x < y; });
}
Tensor less_equal(const Tensor& a, const Tensor& b, Where where) {
  return binary({"less_equal", where}, a, b, [](const Expr& x, const Expr& y) { return x <= y; });
}
Tensor greater(const Tensor& a, const Tensor& b, Where where) {
  return binary({"greater", where}, a, b, [](const Expr& x, const Expr& y) { return y < x; });
}
Tensor greater_equal(const Tensor& a, const Tensor& b, Where where) {
  return binary({"greater_equal", where}, a, b,
                [](const Expr& x, const Expr& y) { return y <= x; });
}
Tensor logical_and(const Tensor& a, const Tensor& b, Where where) {
  return binary({"logical_and", where}, a, b,
                [](const Expr& x, const Expr& y) { return heddle::logical_and(x, y); });
}
Tensor logical_or(const Tensor& a, const Tensor& b, Where where) {
  return binary({"logical_or", where}, a, b,
                [](const Expr& x, const Expr& y) { return heddle::logical_or(x, y); });
}
Tensor logical_xor(const Tensor& a, const Tensor& b, Where where) {
  return binary({"logical_xor", where}, a, b, [](const Expr& x, const Expr& y) {
    return heddle::logical_or(heddle::logical_and(x, !y), heddle::logical_and(!x, y));
  });
}

Tensor logical_not(const Tensor& x, Where where) {
  return unary({"logical_not", where}, x, [](const Expr& v) { return !v; });
}

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b, Where where) {
  const Call call{"where", where};
  impl::check_rank(call, condition, "condition", 0);
  if (!condition.dtype().is_bool())
    impl::fail(call, "argument 'condition' is " + impl::describe(condition) + ", and needs bool",
               "compare it first, for example with ops::not_equal");
  impl::check_rank(call, a, "a", 0);
  impl::check_rank(call, b, "b", 0);
  impl::check_same_type(call, a, b);
  return elementwise(
      "where", {condition, a, b},
      [](const std::vector<Expr>& v) { return select(v[0], v[1], v[2]); }, where);
}

Tensor bitwise_and(const Tensor& a, const Tensor& b, Where where) {
  return binary({"bitwise_and", where}, a, b,
                [](const Expr& x, const Expr& y) { return heddle::bitwise_and(x, y); });
}
Tensor bitwise_or(const Tensor& a, const Tensor& b, Where where) {
  return binary({"bitwise_or", where}, a, b,
                [](const Expr& x, const Expr& y) { return heddle::bitwise_or(x, y); });
}
Tensor bitwise_xor(const Tensor& a, const Tensor& b, Where where) {
  return binary({"bitwise_xor", where}, a, b,
                [](const Expr& x, const Expr& y) { return heddle::bitwise_xor(x, y); });
}
Tensor shift_left(const Tensor& a, const Tensor& b, Where where) {
  return binary({"shift_left", where}, a, b,
                [](const Expr& x, const Expr& y) { return heddle::shift_left(x, y); });
}
Tensor shift_right(const Tensor& a, const Tensor& b, Where where) {
  return binary({"shift_right", where}, a, b,
                [](const Expr& x, const Expr& y) { return heddle::shift_right(x, y); });
}
Tensor bitwise_not(const Tensor& x, Where where) {
  return unary({"bitwise_not", where}, x, [](const Expr& v) { return heddle::bitwise_not(v); });
}

Tensor neg(const Tensor& x, Where where) {
  return unary({"neg", where}, x, [](const Expr& v) { return -v; });
}
Tensor abs(const Tensor& x, Where where) {
  return unary({"abs", where}, x, [](const Expr& v) { return heddle::abs(v); });
}
Tensor sign(const Tensor& x, Where where) {
  return unary({"sign", where}, x, [](const Expr& v) {
    const Expr zero = make_const(v.dtype(), 0), one = make_const(v.dtype(), 1);
    const Expr positive = select(zero < v, one, zero);
    return v.dtype().is_uint() ? positive : select(v < zero, -one, positive);
  });
}
Tensor square(const Tensor& x, Where where) {
  return unary({"square", where}, x, [](const Expr& v) { return v * v; });
}
Tensor reciprocal(const Tensor& x, Where where) {
  return float_unary({"reciprocal", where}, x, [](const Expr& v) { return 1 / v; });
}

// Functions that are one operation of the IR.
#define HEDDLE_FLOAT_FUNCTION(name)                                                       \
  Tensor name(const Tensor& x, Where where) {                                             \
    return float_unary({#name, where}, x, [](const Expr& v) { return heddle::name(v); }); \
  }
HEDDLE_FLOAT_FUNCTION(exp)
HEDDLE_FLOAT_FUNCTION(exp2)
HEDDLE_FLOAT_FUNCTION(expm1)
HEDDLE_FLOAT_FUNCTION(log)
HEDDLE_FLOAT_FUNCTION(log2)
HEDDLE_FLOAT_FUNCTION(log10)
HEDDLE_FLOAT_FUNCTION(log1p)
HEDDLE_FLOAT_FUNCTION(sqrt)
HEDDLE_FLOAT_FUNCTION(rsqrt)
HEDDLE_FLOAT_FUNCTION(sin)
HEDDLE_FLOAT_FUNCTION(cos)
HEDDLE_FLOAT_FUNCTION(tan)
HEDDLE_FLOAT_FUNCTION(asin)
HEDDLE_FLOAT_FUNCTION(acos)
HEDDLE_FLOAT_FUNCTION(atan)
HEDDLE_FLOAT_FUNCTION(sinh)
HEDDLE_FLOAT_FUNCTION(cosh)
HEDDLE_FLOAT_FUNCTION(tanh)
HEDDLE_FLOAT_FUNCTION(erf)
HEDDLE_FLOAT_FUNCTION(floor)
HEDDLE_FLOAT_FUNCTION(ceil)
HEDDLE_FLOAT_FUNCTION(round)
HEDDLE_FLOAT_FUNCTION(trunc)
HEDDLE_FLOAT_FUNCTION(isnan)
HEDDLE_FLOAT_FUNCTION(isinf)
#undef HEDDLE_FLOAT_FUNCTION

}  // namespace heddle::ops
