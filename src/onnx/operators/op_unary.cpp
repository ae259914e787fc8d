// Operators of one tensor, element by element.
#include <algorithm>
#include <limits>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/nn.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

template <Tensor (*F)(const Tensor&, Where)>
std::vector<Value> unary(const NodeScope& s) {
  return {F(s.tensor(0), s.at())};
}

// Applies a function that `ops` does not have to expressions of f32 or f64.
template <class F>
Value of_expressions(const NodeScope& s, const char* name, F f) {
  const DataType type = s.dtype(0), wide = type.bits == 64 ? f64 : f32;
  if (!type.is_float()) s.fail("its input is " + to_string(type) + ", and must be of floats");
  return ops::elementwise(
      name, {s.tensor(0)},
      [&](const std::vector<Expr>& v) { return cast(type, f(cast(wide, v[0]))); }, s.at());
}

Expr constant_like(const Expr& x, double value) { return make_const(x.dtype(), value); }

std::vector<Value> celu(const NodeScope& s) {
  const double alpha = s.number("alpha", 1.0);
  return {of_expressions(s, "celu", [&](const Expr& x) {
    const Expr zero = constant_like(x, 0), a = constant_like(x, alpha);
    return max(x, zero) + min(zero, a * expm1(x / a));
  })};
}

std::vector<Value> thresholded_relu(const NodeScope& s) {
  const double alpha = s.number("alpha", 1.0);
  return {of_expressions(s, "thresholded_relu", [&](const Expr& x) {
    return select(x > constant_like(x, alpha), x, constant_like(x, 0));
  })};
}

std::vector<Value> swish(const NodeScope& s) {
  const double alpha = s.number("alpha", 1.0);
  return {of_expressions(s, "swish", [&](const Expr& x) {
    return x / (constant_like(x, 1) + exp(constant_like(x, -alpha) * x));
  })};
}

std::vector<Value> shrink(const NodeScope& s) {
  const double bias = s.number("bias", 0.0), lambda = s.number("lambd", 0.5);
  const DataType type = s.dtype(0);
  return {ops::elementwise(
      "shrink", {s.tensor(0)},
      [&](const std::vector<Expr>& v) {
        const Expr x = cast(f64, v[0]);
        return cast(type, select(x < -lambda, x + bias, select(x > lambda, x - bias, Expr(0.0))));
      },
      s.at())};
}

std::vector<Value> leaky_relu(const NodeScope& s) {
  return {ops::leaky_relu(s.tensor(0), s.number("alpha", 0.01), s.at())};
}

std::vector<Value> elu(const NodeScope& s) {
  return {ops::elu(s.tensor(0), s.number("alpha", 1.0), s.at())};
}

std::vector<Value> selu(const NodeScope& s) {
  const double alpha = s.number("alpha", 1.67326319217681884765625);
  const double gamma = s.number("gamma", 1.05070102214813232421875);
  return {of_expressions(s, "selu", [&](const Expr& x) {
    const Expr a = constant_like(x, alpha), zero = constant_like(x, 0);
    return constant_like(x, gamma) * select(x > zero, x, a * expm1(x));
  })};
}

std::vector<Value> hard_sigmoid(const NodeScope& s) {
  return {ops::hardsigmoid(s.tensor(0), s.number("alpha", 0.2f), s.number("beta", 0.5), s.at())};
}

std::vector<Value> gelu(const NodeScope& s) {
  const std::string how = s.text("approximate", "none");
  if (how != "none" && how != "tanh") s.fail("attribute 'approximate' is '" + how + "'");
  return {how == "tanh" ? ops::gelu_tanh(s.tensor(0), s.at()) : ops::gelu(s.tensor(0), s.at())};
}

// Bounds were attributes up to opset 10, and are inputs since.
std::vector<Value> clip(const NodeScope& s) {
  const Tensor x = s.tensor(0);
  const DataType type = x.dtype();
  const auto bound = [&](int i, const char* name) -> Expr {
    if (s.has(i)) {
      if (s.dtype(i) != type) s.fail("its bounds and its input differ in type");
      if (s.value(i).is_immediate()) return s.value(i).immediate();
      if (s.value(i).size() != 1) s.fail("a bound has more than one element");
      return s.tensor(i).at(std::vector<Expr>(static_cast<size_t>(s.rank(i)), Expr(0)));
    }
    return s.has_attribute(name) ? make_const(type, s.number(name)) : Expr();
  };
  const Expr low = bound(1, "min"), high = bound(2, "max");
  if (low.defined() && !high.defined() && s.has(1) && s.value(1).is_immediate() &&
      s.value(1).array().get(0) == 0)
    return {ops::relu(x, s.at())};
  return {ops::elementwise(
      "clip", {x},
      [&](const std::vector<Expr>& v) {
        Expr y = v[0];
        if (low.defined()) y = max(y, low);
        if (high.defined()) y = min(y, high);
        return y;
      },
      s.at())};
}

std::vector<Value> is_inf(const NodeScope& s) {
  const bool negative = s.integer("detect_negative", 1) != 0;
  const bool positive = s.integer("detect_positive", 1) != 0;
  const Tensor x = s.tensor(0);
  return {ops::elementwise(
      "isinf", {x},
      [&](const std::vector<Expr>& v) {
        const Expr zero = make_const(x.dtype(), 0);
        Expr found = isinf(v[0]);
        if (!negative) found = logical_and(found, v[0] > zero);
        if (!positive) found = logical_and(found, v[0] < zero);
        return found;
      },
      s.at())};
}

// Unsigned and boolean values are their own magnitudes.
std::vector<Value> absolute(const NodeScope& s) {
  if (!s.dtype(0).is_uint()) return {ops::abs(s.tensor(0), s.at())};
  return {s.value(0)};
}

// Integers are unchanged.
template <Tensor (*F)(const Tensor&, Where)>
std::vector<Value> rounding(const NodeScope& s) {
  if (s.dtype(0).is_integral()) return {s.value(0)};
  return {F(s.tensor(0), s.at())};
}

std::vector<Value> convert(const NodeScope& s, DataType type) {
  if (type.is_float8() && s.integer("saturate", 1) == 0)
    s.fail("it converts to " + to_string(type) + " without saturation, which is not supported");
  if (type == s.dtype(0)) return {s.value(0)};
  return {ops::cast(s.tensor(0), type, s.at())};
}

// Integers of 4 bits wrap, as those of more do.
Value to_four_bits(const NodeScope& s, DataType type) {
  return Value::of_four_bits(ops::elementwise(
      "cast", {s.tensor(0)},
      [&](const std::vector<Expr>& v) {
        const Expr low = bitwise_and(cast(i32, v[0]), make_const(i32, 15));
        if (type.is_uint()) return cast(type, low);
        return cast(type, select(low > 7, low - 16, low));
      },
      s.at()));
}

std::vector<Value> cast_to(const NodeScope& s) {
  if (const auto four = four_bits_of(static_cast<int32_t>(s.integer("to"))))
    return {to_four_bits(s, *four)};
  const DataType to = dtype_of(static_cast<int32_t>(s.integer("to")), "attribute 'to'");
  return convert(s, to == f32 ? s.real() : to);
}

std::vector<Value> cast_like(const NodeScope& s) {
  if (s.any_value(1).is_of_four_bits()) return {to_four_bits(s, s.dtype(1))};
  return convert(s, s.dtype(1));
}

// The same bits as another type. Nothing in a declaration does that to numbers that are data, save between
// integers, where a conversion keeps the bits.
std::vector<Value> bit_cast(const NodeScope& s) {
  const DataType from = s.dtype(0);
  const DataType to = dtype_of(static_cast<int32_t>(s.integer("to")), "attribute 'to'");
  if (from.bytes() != to.bytes())
    s.fail("from " + to_string(from) + " to " + to_string(to) + ", which have different sizes");
  const bool integers = from.is_integral() && to.is_integral() && !from.is_bool() && !to.is_bool();
  if (from == to || integers) return {ops::cast(s.tensor(0), to, s.at())};
  const NDArray& array = s.known(0, "input");
  NDArray result = NDArray::empty(array.shape(), to);
  const auto* bytes = static_cast<const unsigned char*>(array.data());
  auto* target = static_cast<unsigned char*>(result.data());
  std::copy_n(bytes, static_cast<size_t>(array.bytes()), target);
  if (to.is_bool()) std::for_each(target, target + array.bytes(), [](auto& b) { b = b != 0; });
  return {s.constant(result)};
}

std::vector<Value> identity(const NodeScope& s) { return {s.any_value(0)}; }

// At inference nothing is dropped, so all of the mask is true.
std::vector<Value> dropout(const NodeScope& s) {
  if (s.has(2) && s.known_number(2, "training mode") != 0 &&
      !(s.has(1) && s.known_number(1, "ratio") == 0))
    s.fail("it is in training mode, which is not supported");
  std::vector<Value> results{s.value(0)};
  const auto& outputs = s.node().outputs;
  if (outputs.size() > 1 && !outputs[1].empty()) {
    const Shape shape = s.tensor(0).shape();
    results.push_back(s.opset() < 10 ? ops::full(shape, 1, s.dtype(0), s.at())
                                     : ops::full(shape, 1, boolean, s.at()));
  }
  return results;
}

}  // namespace

std::vector<OperatorEntry> unary_operators() {
  return {
      {"Abs", absolute, follow_elements},
      {"Acos", unary<ops::acos>, follow_elements},
      {"Acosh", unary<ops::acosh>, follow_elements},
      {"Asin", unary<ops::asin>, follow_elements},
      {"Asinh", unary<ops::asinh>, follow_elements},
      {"Atan", unary<ops::atan>, follow_elements},
      {"Atanh", unary<ops::atanh>, follow_elements},
      {"BitCast", bit_cast},
      {"BitwiseNot", unary<ops::bitwise_not>, follow_elements},
      {"Cast", cast_to, follow_elements},
      {"CastLike", cast_like},
      {"Ceil", rounding<ops::ceil>, follow_elements},
      {"Celu", celu, follow_elements},
      {"Clip", clip, follow_elements},
      {"Cos", unary<ops::cos>, follow_elements},
      {"Cosh", unary<ops::cosh>, follow_elements},
      {"Dropout", dropout, follow_elements},
      {"Elu", elu, follow_elements},
      {"Erf", unary<ops::erf>, follow_elements},
      {"Exp", unary<ops::exp>, follow_elements},
      {"Floor", rounding<ops::floor>, follow_elements},
      {"Gelu", gelu, follow_elements},
      {"HardSigmoid", hard_sigmoid, follow_elements},
      {"HardSwish", unary<ops::hardswish>, follow_elements},
      {"Identity", identity, follow_elements},
      {"IsInf", is_inf, follow_elements},
      {"IsNaN", unary<ops::isnan>, follow_elements},
      {"LeakyRelu", leaky_relu, follow_elements},
      {"Log", unary<ops::log>, follow_elements},
      {"Mish", unary<ops::mish>, follow_elements},
      {"Neg", unary<ops::neg>, follow_elements},
      {"Not", unary<ops::logical_not>, follow_elements},
      {"Reciprocal", unary<ops::reciprocal>, follow_elements},
      {"Relu", unary<ops::relu>, follow_elements},
      {"Round", rounding<ops::round>, follow_elements},
      {"Selu", selu, follow_elements},
      {"Shrink", shrink, follow_elements},
      {"Sigmoid", unary<ops::sigmoid>, follow_elements},
      {"Sign", unary<ops::sign>, follow_elements},
      {"Sin", unary<ops::sin>, follow_elements},
      {"Sinh", unary<ops::sinh>, follow_elements},
      {"Softplus", unary<ops::softplus>, follow_elements},
      {"Softsign", unary<ops::softsign>, follow_elements},
      {"Sqrt", unary<ops::sqrt>, follow_elements},
      {"Swish", swish, follow_elements},
      {"Tan", unary<ops::tan>, follow_elements},
      {"Tanh", unary<ops::tanh>, follow_elements},
      {"ThresholdedRelu", thresholded_relu, follow_elements},
  };
}

}  // namespace heddle::onnx
