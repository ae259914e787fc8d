// Matrix products.
#include <algorithm>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
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

std::vector<Value> determinant(const NodeScope& s) {
  return {ops::determinant(s.tensor(0), s.at())};
}

}  // namespace

std::vector<OperatorEntry> product_operators() {
  return {{"Det", determinant}, {"Einsum", einsum}, {"Gemm", gemm}, {"MatMul", matmul}};
}

}  // namespace heddle::onnx
