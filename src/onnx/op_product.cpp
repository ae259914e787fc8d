// Matrix products.
#include <algorithm>
#include <optional>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

std::vector<Value> matmul(const NodeScope& s) {
  const Tensor a = s.tensor(0), b = s.tensor(1);
  return {ops::matmul(a, b, false, false, {.output = a.dtype()}, s.at())};
}

// alpha * A' B' + beta * C
std::vector<Value> gemm(const NodeScope& s) {
  const double alpha = s.number("alpha", 1.0), beta = s.number("beta", 1.0);
  const bool ta = s.integer("transA", 0) != 0, tb = s.integer("transB", 0) != 0;
  if (s.rank(0) != 2 || s.rank(1) != 2) s.fail("its first two inputs are not matrices");
  const Tensor a = s.tensor(0), b = s.tensor(1);
  Tensor y = ops::matmul(a, b, ta, tb, {.output = a.dtype()}, s.at());
  const auto number = [&](double value) { return make_const(a.dtype(), value); };
  if (alpha != 1) y = ops::mul(y, number(alpha), s.at());
  if (!s.has(2) || beta == 0) return {y};
  const Tensor c = s.tensor(2);
  if (c.rank() > 2) s.fail("its third input " + shape_text(c.extents()) + " is no matrix");
  return {ops::add(y, beta == 1 ? c : ops::mul(c, number(beta), s.at()), s.at())};
}

std::vector<Value> einsum(const NodeScope& s) {
  std::string equation = s.text("equation");
  equation.erase(std::remove(equation.begin(), equation.end(), ' '), equation.end());
  if (s.count() == 1) return {ops::einsum(equation, s.tensor(0), {}, s.at())};
  if (s.count() == 2) return {ops::einsum(equation, s.tensor(0), s.tensor(1), {}, s.at())};
  s.fail("sums of products of more than two tensors are not supported");
}

/// The zero point of input `i` as i32, one or one for each row (of the first operand) or column;
/// nothing where there is none, or it is 0.
std::optional<Tensor> zero_point(const NodeScope& s, int i, bool of_rows) {
  if (!s.has(i)) return std::nullopt;
  const Value& point = s.value(i);
  if (point.known()) {
    int64_t at = 0;
    while (at < point.array().size() && point.array().get(at) == 0) ++at;
    if (at == point.array().size()) return std::nullopt;
  }
  const Tensor p = ops::cast(s.tensor(i), i32, s.at());
  return of_rows && p.rank() == 1 && p.extent(0) > 1 ? ops::expand_dims(p, {1}, s.at()) : p;
}

// sum (a - za) (b - zb) = sum a b - za sum b - zb sum a + depth za zb, over the depth. The first sum
// is one of products of bytes, for which machines have instructions, and sums of weights are
// computed once. Integers wrap, so both sides are equal whatever the sizes.
std::vector<Value> matmul_integer(const NodeScope& s) {
  const Tensor a = s.tensor(0), b = s.tensor(1);
  const std::optional<Tensor> za = zero_point(s, 2, true), zb = zero_point(s, 3, false);
  Tensor y = ops::matmul(a, b, false, false, {}, s.at());
  const auto sums = [&](const Tensor& x, int axis, bool keep) {
    return ops::sum(ops::cast(x, i32, s.at()), {axis}, keep, s.at());
  };
  const auto subtract = [&](const Tensor& point, const Tensor& of_other) {
    y = ops::sub(y, ops::mul(of_other, point, s.at()), s.at());
  };
  if (za) subtract(*za, sums(b, b.rank() > 1 ? b.rank() - 2 : 0, a.rank() > 1 && b.rank() > 1));
  if (zb) subtract(*zb, sums(a, a.rank() - 1, b.rank() > 1 && a.rank() > 1));
  if (za && zb) {
    const Tensor both = ops::mul(*za, *zb, s.at());
    const int64_t depth = a.extent(a.rank() - 1);
    y = ops::add(y, ops::mul(both, make_const(i32, static_cast<double>(depth)), s.at()), s.at());
  }
  return {y};
}

}  // namespace

std::vector<OperatorEntry> product_operators() {
  return {
      {"Einsum", einsum}, {"Gemm", gemm}, {"MatMul", matmul}, {"MatMulInteger", matmul_integer}};
}

}  // namespace heddle::onnx
