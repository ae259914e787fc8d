// Operators on elements, and reductions over axes.
#include "bind.h"

namespace heddle::python {
namespace {

using OfOne = Tensor (*)(const Tensor&, Where);
using OfTwo = Tensor (*)(const Tensor&, const Tensor&, Where);
using WithNumber = Tensor (*)(const Tensor&, const Expr&, Where);
using OverAxes = Tensor (*)(const Tensor&, const std::vector<int>&, bool, Where);

struct Named {
  const char* name;
  const char* doc;
};

void bind_of_one(nb::module_& m) {
  const std::vector<std::pair<Named, OfOne>> all = {
      {{"identity", "A copy of x, as a stage of its own."}, ops::identity},
      {{"neg", "-x"}, ops::neg},
      {{"abs", "|x|"}, ops::abs},
      {{"sign", "-1, 0 or 1."}, ops::sign},
      {{"square", "x * x"}, ops::square},
      {{"reciprocal", "1 / x"}, ops::reciprocal},
      {{"exp", "e to the power x."}, ops::exp},
      {{"exp2", "2 to the power x."}, ops::exp2},
      {{"expm1", "exp(x) - 1, accurate near 0."}, ops::expm1},
      {{"log", "The natural logarithm."}, ops::log},
      {{"log2", "The logarithm to base 2."}, ops::log2},
      {{"log10", "The logarithm to base 10."}, ops::log10},
      {{"log1p", "log(1 + x), accurate near 0."}, ops::log1p},
      {{"sqrt", "The square root."}, ops::sqrt},
      {{"rsqrt", "1 / sqrt(x)"}, ops::rsqrt},
      {{"sin", "Of radians."}, ops::sin},
      {{"cos", "Of radians."}, ops::cos},
      {{"tan", "Of radians."}, ops::tan},
      {{"asin", "In radians."}, ops::asin},
      {{"acos", "In radians."}, ops::acos},
      {{"atan", "In radians."}, ops::atan},
      {{"sinh", "The hyperbolic sine."}, ops::sinh},
      {{"cosh", "The hyperbolic cosine."}, ops::cosh},
      {{"tanh", "The hyperbolic tangent."}, ops::tanh},
      {{"asinh", "The inverse of sinh."}, ops::asinh},
      {{"acosh", "The inverse of cosh; NaN below 1."}, ops::acosh},
      {{"atanh", "The inverse of tanh; NaN beyond -1 and 1."}, ops::atanh},
      {{"erf", "The error function."}, ops::erf},
      {{"floor", "The largest integer that is not above x."}, ops::floor},
      {{"ceil", "The smallest integer that is not below x."}, ops::ceil},
      {{"round", "To the nearest integer, half to even."}, ops::round},
      {{"trunc", "Towards 0."}, ops::trunc},
      {{"isnan", "Whether an element is NaN (bool)."}, ops::isnan},
      {{"isinf", "Whether an element is infinite (bool)."}, ops::isinf},
      {{"logical_not", "Of bools."}, ops::logical_not},
      {{"bitwise_not", "Of integers and bools."}, ops::bitwise_not},
      {{"relu", "max(x, 0)"}, ops::relu},
      {{"relu6", "min(max(x, 0), 6)"}, ops::relu6},
      {{"selu", "The scaled elu (arXiv:1706.02515)."}, ops::selu},
      {{"sigmoid", "1 / (1 + exp(-x))"}, ops::sigmoid},
      {{"gelu", "x * P(N(0, 1) < x), by erf."}, ops::gelu},
      {{"gelu_tanh", "The approximation of gelu by tanh."}, ops::gelu_tanh},
      {{"silu", "x * sigmoid(x)"}, ops::silu},
      {{"softplus", "log(1 + exp(x)), without overflow."}, ops::softplus},
      {{"softsign", "x / (1 + |x|)"}, ops::softsign},
      {{"mish", "x * tanh(softplus(x))"}, ops::mish},
      {{"hardswish", "x * hardsigmoid(x)"}, ops::hardswish}};
  for (const auto& [op, f] : all)
    m.def(op.name, [f](const Tensor& x) { return f(x, caller()); }, "x"_a, op.doc);
}

void bind_of_two(nb::module_& m) {
  const std::vector<std::pair<Named, OfTwo>> all = {
      {{"add", "a + b"}, ops::add},
      {{"sub", "a - b"}, ops::sub},
      {{"mul", "a * b"}, ops::mul},
      {{"div", "a / b; truncates for integers."}, ops::div},
      {{"floor_divide", "a / b, rounded towards minus infinity."}, ops::floor_divide},
      {{"mod", "The remainder with the sign of b."}, ops::mod},
      {{"fmod", "The remainder with the sign of a."}, ops::fmod},
      {{"pow", "a to the power b."}, ops::pow},
      {{"atan2", "The angle of the point (b, a), in radians."}, ops::atan2},
      {{"maximum", "The larger element; NaN where one is NaN."}, ops::maximum},
      {{"minimum", "The smaller element; NaN where one is NaN."}, ops::minimum},
      {{"equal", "a == b (bool)"}, ops::equal},
      {{"not_equal", "a != b (bool)"}, ops::not_equal},
      {{"less", "a < b (bool)"}, ops::less},
      {{"less_equal", "a <= b (bool)"}, ops::less_equal},
      {{"greater", "a > b (bool)"}, ops::greater},
      {{"greater_equal", "a >= b (bool)"}, ops::greater_equal},
      {{"logical_and", "Of bools."}, ops::logical_and},
      {{"logical_or", "Of bools."}, ops::logical_or},
      {{"logical_xor", "Of bools."}, ops::logical_xor},
      {{"bitwise_and", "Of integers and bools."}, ops::bitwise_and},
      {{"bitwise_or", "Of integers and bools."}, ops::bitwise_or},
      {{"bitwise_xor", "Of integers and bools."}, ops::bitwise_xor},
      {{"shift_left", "a shifted by b bits."}, ops::shift_left},
      {{"shift_right", "a shifted by b bits; arithmetic for signed types."}, ops::shift_right},
      {{"prelu", "a where a >= 0, else b * a; b broadcasts to a."}, ops::prelu}};
  for (const auto& [op, f] : all)
    m.def(
        op.name, [f](const Tensor& a, const Tensor& b) { return f(a, b, caller()); }, "a"_a, "b"_a,
        op.doc);
  const std::vector<std::pair<const char*, WithNumber>> with_number = {
      {"add", ops::add}, {"sub", ops::sub}, {"mul", ops::mul}, {"div", ops::div}};
  for (const auto& [name, f] : with_number)
    m.def(
        name, [f](const Tensor& a, const Expr& b) { return f(a, b, caller()); }, "a"_a, "b"_a,
        "The same with a number.");
  m.def(
      "pow", [](const Tensor& a, double exponent) { return ops::pow(a, exponent, caller()); },
      "a"_a, "exponent"_a, "The same with a number.");
}

void bind_with_numbers(nb::module_& m) {
  m.def(
      "elementwise",
      [](const std::string& name, const std::vector<Tensor>& inputs, const nb::callable& f) {
        return ops::elementwise(
            name, inputs,
            [&](const std::vector<Expr>& v) { return nb::cast<Expr>(f(*nb::tuple(nb::cast(v)))); },
            caller());
      },
      "name"_a, "inputs"_a, "f"_a,
      "Applies f(a, b, ...) to the elements of the inputs, which broadcast.");
  m.def(
      "cast", [](const Tensor& x, DataType dtype) { return ops::cast(x, dtype, caller()); }, "x"_a,
      "dtype"_a, "Converts each element. Float to int truncates; to bool is x != 0.");
  m.def(
      "full",
      [](const Shape& shape, double value, DataType dtype) {
        return ops::full(shape, value, dtype, caller());
      },
      "shape"_a, "value"_a, "dtype"_a = f32, "A tensor whose elements all have one value.");
  m.def(
      "where",
      [](const Tensor& c, const Tensor& a, const Tensor& b) {
        return ops::where(c, a, b, caller());
      },
      "condition"_a, "a"_a, "b"_a, "`a` where `condition` (bool) holds, else `b`.");
  m.def(
      "clip",
      [](const Tensor& x, double low, double high) { return ops::clip(x, low, high, caller()); },
      "x"_a, "low"_a, "high"_a, "max(low, min(high, x))");
  m.def(
      "leaky_relu",
      [](const Tensor& x, double alpha) { return ops::leaky_relu(x, alpha, caller()); }, "x"_a,
      "alpha"_a = 0.01, "x where x >= 0, else alpha * x.");
  m.def(
      "elu", [](const Tensor& x, double alpha) { return ops::elu(x, alpha, caller()); }, "x"_a,
      "alpha"_a = 1.0, "x where x >= 0, else alpha * (exp(x) - 1).");
  m.def(
      "hardsigmoid",
      [](const Tensor& x, double alpha, double beta) {
        return ops::hardsigmoid(x, alpha, beta, caller());
      },
      "x"_a, "alpha"_a = 1.0 / 6, "beta"_a = 0.5, "max(0, min(1, alpha * x + beta))");
}

void bind_over_axes(nb::module_& m) {
  const std::vector<std::pair<Named, OverAxes>> all = {
      {{"sum", "The sum over axes."}, ops::sum},
      {{"prod", "The product over axes."}, ops::prod},
      {{"max", "The largest element over axes."}, ops::max},
      {{"min", "The smallest element over axes."}, ops::min},
      {{"any", "Whether any of the bools is true."}, ops::any},
      {{"all", "Whether all of the bools are true."}, ops::all},
      {{"mean", "The mean of floats."}, ops::mean},
      {{"logsumexp", "log(sum(exp(x))), without overflow."}, ops::logsumexp},
      {{"norm_l1", "sum(|x|)"}, ops::norm_l1},
      {{"norm_l2", "sqrt(sum(x * x))"}, ops::norm_l2}};
  for (const auto& [op, f] : all)
    m.def(
        op.name,
        [f](const Tensor& x, const std::vector<int>& axes, bool keepdims) {
          return f(x, axes, keepdims, caller());
        },
        "x"_a, "axes"_a = std::vector<int>(), "keepdims"_a = false, op.doc);
  m.def(
      "var",
      [](const Tensor& x, const std::vector<int>& axes, bool keepdims, bool unbiased) {
        return ops::var(x, axes, keepdims, unbiased, caller());
      },
      "x"_a, "axes"_a = std::vector<int>(), "keepdims"_a = false, "unbiased"_a = true,
      "The mean square distance from the mean. `unbiased` divides by n - 1.");
  for (const auto& [name, f] :
       {std::pair("argmax", &ops::argmax), std::pair("argmin", &ops::argmin)})
    m.def(
        name,
        [f = f](const Tensor& x, int axis, bool keepdims) {
          return f(x, axis, keepdims, caller());
        },
        "x"_a, "axis"_a = -1, "keepdims"_a = false,
        "The position of the extreme element along `axis`, as i64; the first of equal ones.");
}

}  // namespace

void bind_elementwise(nb::module_& ops) {
  bind_of_one(ops);
  bind_of_two(ops);
  bind_with_numbers(ops);
  bind_over_axes(ops);
}

}  // namespace heddle::python
