#include <cmath>
#include <numbers>
#include <utility>

#include "heddle/ops/elementwise.h"
#include "ops/common.h"

namespace heddle::ops {
namespace {

using impl::Call;

/// `f` computed in the wider type and rounded once to the type of x.
template <class F>
Tensor activation(const Call& call, const Tensor& x, F f) {
  impl::check_rank(call, x, "x", 0);
  impl::check_float(call, x, "x");
  const DataType type = x.dtype(), wide = impl::wide(type);
  return compute(
      x.shape(),
      [&](const std::vector<Axis>& i) { return heddle::cast(type, f(heddle::cast(wide, x(i)))); },
      call.op, call.op, call.where);
}

Expr sigmoid_of(const Expr& v) { return 1 / (1 + heddle::exp(-v)); }

// log(1 + exp(v)) without overflow.
Expr softplus_of(const Expr& v) {
  return max(v, Expr(0)) + heddle::log1p(heddle::exp(-heddle::abs(v)));
}

Expr clip_of(const Expr& v, double low, double high) {
  return max(min(v, make_const(v.dtype(), high)), make_const(v.dtype(), low));
}

// From here on asinh and acosh are log(2 v) to the last bit.
Expr large_of(const Expr& v) { return make_const(v.dtype(), v.dtype().bits == 64 ? 1e9 : 1e4); }
Expr log_of_twice(const Expr& v) {
  return heddle::log(v) + make_const(v.dtype(), std::numbers::ln2);
}

}  // namespace

Tensor asinh(const Tensor& x, Where where) {
  return activation({"asinh", where}, x, [](const Expr& v) {
    // Of |v|, because v + sqrt(v * v + 1) cancels where v is negative, and by log1p, because it does near 0.
    const Expr size = heddle::abs(v), large = large_of(v), far = size > large;
    const Expr a = select(far, large, size);
    const Expr near = heddle::log1p(a + a * a / (1 + heddle::sqrt(a * a + 1)));
    const Expr value = select(far, log_of_twice(size), near);
    return select(v < make_const(v.dtype(), 0), -value, value);
  });
}

Tensor acosh(const Tensor& x, Where where) {
  return activation({"acosh", where}, x, [](const Expr& v) {
    // Below 1 there is none, as the root of a negative number says.
    const Expr large = large_of(v), zero = make_const(v.dtype(), 0), far = v > large;
    const Expr a = select(far, large, select(v < zero, zero, v));
    return select(far, log_of_twice(v), heddle::log(a + heddle::sqrt((a - 1) * (a + 1))));
  });
}

Tensor atanh(const Tensor& x, Where where) {
  return activation({"atanh", where}, x, [](const Expr& v) {
    return (heddle::log1p(v) - heddle::log1p(-v)) * make_const(v.dtype(), 0.5);
  });
}

Tensor clip(const Tensor& x, double low, double high, Where where) {
  const Call call{"clip", where};
  impl::check_rank(call, x, "x", 0);
  if (!(low <= high))
    impl::fail(call, "the lower bound " + std::to_string(low) + " is above the upper bound " +
                         std::to_string(high));
  return compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr v = x(i);
        // A bound outside the range of an integer type has no effect.
        const auto bound = [&](double limit, bool is_low) {
          if (v.dtype().is_float()) return make_float(v.dtype(), limit);
          const double bits = v.dtype().bits - (v.dtype().is_int() ? 1 : 0);
          const double most = std::ldexp(1.0, static_cast<int>(bits));
          const double least = v.dtype().is_int() ? -most : 0;
          if (limit >= most) return highest_value(v.dtype());
          if (limit < least) return lowest_value(v.dtype());
          return make_const(v.dtype(), is_low ? std::ceil(limit) : std::floor(limit));
        };
        return max(min(v, bound(high, false)), bound(low, true));
      },
      call.op, call.op, where);
}

Tensor relu(const Tensor& x, Where where) {
  impl::check_rank({"relu", where}, x, "x", 0);
  return compute(
      x.shape(), [&](const std::vector<Axis>& i) { return max(x(i), Expr(0)); }, "relu", "relu",
      where);
}

Tensor relu6(const Tensor& x, Where where) {
  return activation({"relu6", where}, x, [](const Expr& v) { return clip_of(v, 0, 6); });
}

Tensor leaky_relu(const Tensor& x, double alpha, Where where) {
  return activation({"leaky_relu", where}, x,
                    [&](const Expr& v) { return select(v < 0, v * alpha, v); });
}

Tensor prelu(const Tensor& x, const Tensor& slope, Where where) {
  const Call call{"prelu", where};
  impl::check_rank(call, x, "x", 0);
  impl::check_rank(call, slope, "slope", 0);
  impl::check_float(call, x, "x");
  impl::check_same_type(call, x, slope);
  if (impl::broadcast_dims(call, {x, slope}) != x.extents())
    impl::fail(
        call, "'slope' " + impl::describe(slope) + " does not broadcast to x " + impl::describe(x));
  return elementwise(
      "prelu", {x, slope},
      [](const std::vector<Expr>& v) { return select(v[0] < 0, v[0] * v[1], v[0]); }, where);
}

Tensor elu(const Tensor& x, double alpha, Where where) {
  return activation({"elu", where}, x,
                    [&](const Expr& v) { return select(v < 0, heddle::expm1(v) * alpha, v); });
}

Tensor selu(const Tensor& x, Where where) {
  constexpr double kAlpha = 1.6732632423543772, kScale = 1.0507009873554805;
  return activation({"selu", where}, x, [&](const Expr& v) {
    return select(v < 0, heddle::expm1(v) * (kAlpha * kScale), v * kScale);
  });
}

Tensor sigmoid(const Tensor& x, Where where) {
  return activation({"sigmoid", where}, x, sigmoid_of);
}

Tensor gelu(const Tensor& x, Where where) {
  return activation({"gelu", where}, x,
                    [](const Expr& v) { return v * 0.5 * (1 + heddle::erf(v * std::sqrt(0.5))); });
}

Tensor gelu_tanh(const Tensor& x, Where where) {
  constexpr double kSqrt2OverPi = 0.7978845608028654;
  return activation({"gelu_tanh", where}, x, [&](const Expr& v) {
    return v * 0.5 * (1 + heddle::tanh((v + v * v * v * 0.044715) * kSqrt2OverPi));
  });
}

Tensor silu(const Tensor& x, Where where) {
  return activation({"silu", where}, x, [](const Expr& v) { return v / (1 + heddle::exp(-v)); });
}

Tensor softplus(const Tensor& x, Where where) {
  return activation({"softplus", where}, x, softplus_of);
}

Tensor softsign(const Tensor& x, Where where) {
  return activation({"softsign", where}, x, [](const Expr& v) { return v / (1 + heddle::abs(v)); });
}

Tensor mish(const Tensor& x, Where where) {
  return activation({"mish", where}, x,
                    [](const Expr& v) { return v * heddle::tanh(softplus_of(v)); });
}

Tensor hardsigmoid(const Tensor& x, double alpha, double beta, Where where) {
  return activation({"hardsigmoid", where}, x,
                    [&](const Expr& v) { return clip_of(v * alpha + beta, 0, 1); });
}

Tensor hardswish(const Tensor& x, Where where) {
  return activation({"hardswish", where}, x,
                    [](const Expr& v) { return v * clip_of(v * (1.0 / 6) + 0.5, 0, 1); });
}

}  // namespace heddle::ops
