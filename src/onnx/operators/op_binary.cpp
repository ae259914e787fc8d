// Operators of several tensors, element by element, broadcast as in numpy.
#include "heddle/ops/elementwise.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

using Exprs = std::vector<Expr>;

// `f` of two inputs, broadcast.
Value of_two(const NodeScope& s, const char* name, FunctionRef<Expr(const Exprs&)> f,
             int mixed = 0) {
  if (s.count() != 2) s.fail("it has " + std::to_string(s.count()) + " inputs, and needs two");
  return s.elementwise(name, f, mixed);
}

std::vector<Value> add(const NodeScope& s) {
  return {of_two(s, "add", [](const Exprs& v) { return v[0] + v[1]; })};
}
std::vector<Value> sub(const NodeScope& s) {
  return {of_two(s, "sub", [](const Exprs& v) { return v[0] - v[1]; })};
}
std::vector<Value> mul(const NodeScope& s) {
  return {of_two(s, "mul", [](const Exprs& v) { return v[0] * v[1]; })};
}
// A division of integers by 0 has no result, and would end the process on some machines.
void check_divisor(const NodeScope& s) {
  if (!s.has(1) || !s.value(1).known() || !s.dtype(1).is_integral()) return;
  for (const int64_t divisor : integers_of(s.value(1).array())) {
    if (divisor == 0) s.fail("it divides integers by 0, which '" + s.node().inputs[1] + "' holds");
  }
}

std::vector<Value> div(const NodeScope& s) {
  check_divisor(s);
  return {of_two(s, "div", [](const Exprs& v) { return v[0] / v[1]; })};
}

std::vector<Value> equal(const NodeScope& s) {
  return {of_two(s, "equal", [](const Exprs& v) { return v[0] == v[1]; })};
}
std::vector<Value> less(const NodeScope& s) {
  return {of_two(s, "less", [](const Exprs& v) { return v[0] < v[1]; })};
}
std::vector<Value> less_or_equal(const NodeScope& s) {
  return {of_two(s, "less_equal", [](const Exprs& v) { return v[0] <= v[1]; })};
}
std::vector<Value> greater(const NodeScope& s) {
  return {of_two(s, "greater", [](const Exprs& v) { return v[0] > v[1]; })};
}
std::vector<Value> greater_or_equal(const NodeScope& s) {
  return {of_two(s, "greater_equal", [](const Exprs& v) { return v[0] >= v[1]; })};
}

std::vector<Value> logical_and(const NodeScope& s) {
  return {of_two(s, "logical_and", [](const Exprs& v) { return heddle::logical_and(v[0], v[1]); })};
}
std::vector<Value> logical_or(const NodeScope& s) {
  return {of_two(s, "logical_or", [](const Exprs& v) { return heddle::logical_or(v[0], v[1]); })};
}
std::vector<Value> logical_xor(const NodeScope& s) {
  return {ops::logical_xor(s.tensor(0), s.tensor(1), s.at())};
}
std::vector<Value> bitwise_and(const NodeScope& s) {
  return {of_two(s, "bitwise_and", [](const Exprs& v) { return heddle::bitwise_and(v[0], v[1]); })};
}
std::vector<Value> bitwise_or(const NodeScope& s) {
  return {of_two(s, "bitwise_or", [](const Exprs& v) { return heddle::bitwise_or(v[0], v[1]); })};
}
std::vector<Value> bitwise_xor(const NodeScope& s) {
  return {of_two(s, "bitwise_xor", [](const Exprs& v) { return heddle::bitwise_xor(v[0], v[1]); })};
}

std::vector<Value> bit_shift(const NodeScope& s) {
  const std::string direction = s.text("direction");
  if (direction != "LEFT" && direction != "RIGHT")
    s.fail("attribute 'direction' is '" + direction + "'", "it is LEFT or RIGHT");
  const int bits = s.dtype(0).bits;
  // Shifts by the width or more, and by negative numbers, give copies of the sign only.
  return {of_two(s, "bit_shift", [&](const Exprs& v) {
    const Expr zero = make_const(v[1].dtype(), 0), most = make_const(v[1].dtype(), bits - 1);
    const Expr outside = heddle::logical_or(v[1]<zero, v[1]> most);
    const Expr by = select(outside, most, v[1]);
    if (direction == "LEFT")
      return select(outside, make_const(v[0].dtype(), 0), shift_left(v[0], by));
    const Expr shifted = shift_right(v[0], by);
    return v[0].dtype().is_int() ? shifted : select(outside, make_const(v[0].dtype(), 0), shifted);
  })};
}

std::vector<Value> where(const NodeScope& s) {
  if (s.count() != 3) s.fail("it needs three inputs");
  return {s.elementwise("where", [](const Exprs& v) { return select(v[0], v[1], v[2]); }, 1)};
}

// Base and exponent may differ in type. The result has the type of the base.
std::vector<Value> pow(const NodeScope& s) {
  const DataType type = s.dtype(0);
  const Value& exponent = s.value(1);
  if (type.is_float() && exponent.is_immediate() && exponent.shape().size() <= s.shape(0).size())
    return {ops::pow(s.tensor(0), exponent.array().get(0), s.at())};
  if (type.is_float()) {
    return {ops::pow(s.tensor(0),
                     s.dtype(1) == type ? s.tensor(1) : ops::cast(s.tensor(1), type, s.at()),
                     s.at())};
  }
  const Tensor power =
      ops::pow(ops::cast(s.tensor(0), f64, s.at()), ops::cast(s.tensor(1), f64, s.at()), s.at());
  return {ops::cast(s.dtype(1).is_integral() ? ops::round(power, s.at()) : power, type, s.at())};
}

std::vector<Value> mod(const NodeScope& s) {
  check_divisor(s);
  const bool as_c = s.integer("fmod", 0) != 0;
  return {as_c ? ops::fmod(s.tensor(0), s.tensor(1), s.at())
               : ops::mod(s.tensor(0), s.tensor(1), s.at())};
}

// The result is NaN where an operand is NaN, as in numpy.
Expr extreme(const Expr& a, const Expr& b, bool largest) {
  const Expr value = largest ? heddle::max(a, b) : heddle::min(a, b);
  if (!a.dtype().is_float()) return value;
  return select(isnan(a), a, select(isnan(b), b, value));
}

template <class F>
std::vector<Value> folded(const NodeScope& s, const char* name, F f) {
  if (s.count() < 2) return {s.value(0)};
  return {s.elementwise(name, [&](const Exprs& v) {
    Expr result = v[0];
    for (size_t i = 1; i < v.size(); ++i) result = f(result, v[i]);
    return result;
  })};
}

std::vector<Value> max(const NodeScope& s) {
  return folded(s, "max", [](const Expr& a, const Expr& b) { return extreme(a, b, true); });
}
std::vector<Value> min(const NodeScope& s) {
  return folded(s, "min", [](const Expr& a, const Expr& b) { return extreme(a, b, false); });
}
std::vector<Value> sum(const NodeScope& s) {
  return folded(s, "sum", [](const Expr& a, const Expr& b) { return a + b; });
}
std::vector<Value> mean(const NodeScope& s) {
  const Tensor total = sum(s)[0].tensor();
  return {ops::mul(total, make_const(total.dtype(), 1.0 / s.count()), s.at())};
}

// The slope is broadcast to x. ONNX aligns it at the last dimension as other operands.
std::vector<Value> prelu(const NodeScope& s) {
  return {of_two(s, "prelu", [](const Exprs& v) {
    return select(v[0] < make_const(v[0].dtype(), 0), v[1] * v[0], v[0]);
  })};
}

}  // namespace

std::vector<OperatorEntry> binary_operators() {
  return {
      {"Add", add, follow_elements},
      {"And", logical_and, follow_elements},
      {"BitShift", bit_shift, follow_elements},
      {"BitwiseAnd", bitwise_and, follow_elements},
      {"BitwiseOr", bitwise_or, follow_elements},
      {"BitwiseXor", bitwise_xor, follow_elements},
      {"Div", div, follow_elements},
      {"Equal", equal, follow_elements},
      {"Greater", greater, follow_elements},
      {"GreaterOrEqual", greater_or_equal, follow_elements},
      {"Less", less, follow_elements},
      {"LessOrEqual", less_or_equal, follow_elements},
      {"Max", max, follow_elements},
      {"Mean", mean, follow_elements},
      {"Min", min, follow_elements},
      {"Mod", mod, follow_elements},
      {"Mul", mul, follow_elements},
      {"Or", logical_or, follow_elements},
      {"PRelu", prelu, follow_elements},
      {"Pow", pow, follow_elements},
      {"Sub", sub, follow_elements},
      {"Sum", sum, follow_elements},
      {"Where", where, follow_elements},
      {"Xor", logical_xor, follow_elements},
  };
}

}  // namespace heddle::onnx
