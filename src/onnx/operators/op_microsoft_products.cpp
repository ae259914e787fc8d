// Products of com.microsoft: with transpositions and activations in one node, and with weights of few
// bits.
#include <algorithm>
#include <numeric>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/transform.h"
#include "onnx/operators/convolution.h"

namespace heddle::onnx {
namespace {

// The first dimension becomes the last but one: (M, B..., K) -> (B..., M, K).
Tensor batch_first(const NodeScope& s, const Tensor& x) {
  if (x.rank() < 3) return x;
  std::vector<int> order(static_cast<size_t>(x.rank()));
  std::iota(order.begin(), order.end(), 0);
  std::rotate(order.begin(), order.begin() + 1, order.end() - 1);
  return ops::transpose(x, order, s.at());
}

std::vector<Value> fused_matmul(const NodeScope& s) {
  Tensor a = s.tensor(0), b = s.tensor(1);
  if (s.integer("transBatchA", 0) != 0) a = batch_first(s, a);
  if (s.integer("transBatchB", 0) != 0) b = batch_first(s, b);
  const bool ta = s.integer("transA", 0) != 0 && a.rank() > 1;
  const bool tb = s.integer("transB", 0) != 0 && b.rank() > 1;
  const Tensor y = ops::matmul(a, b, ta, tb, {.output = a.dtype()}, s.at());
  const double alpha = s.number("alpha", 1.0);
  return {alpha == 1 ? y : ops::mul(y, make_const(y.dtype(), alpha), s.at())};
}

/// The activation of a fused node. `parameter` gives its numbers, or the given ones.
template <class Parameter>
Tensor activated(const NodeScope& s, const Tensor& x, Parameter parameter) {
  const std::string name = s.text("activation", "");
  if (name.empty()) return x;
  if (name == "Relu") return ops::relu(x, s.at());
  if (name == "Tanh") return ops::tanh(x, s.at());
  if (name == "Sigmoid") return ops::sigmoid(x, s.at());
  if (name == "LeakyRelu") return ops::leaky_relu(x, parameter(0, 0.01), s.at());
  if (name == "Clip") return ops::clip(x, parameter(0, -3.4e38), parameter(1, 3.4e38), s.at());
  if (name == "HardSigmoid")
    return ops::hardsigmoid(x, parameter(0, 0.2), parameter(1, 0.5), s.at());
  s.fail("the activation '" + name + "' is not supported");
}

std::vector<Value> fused_gemm(const NodeScope& s) {
  std::map<std::string, Attribute> attributes;
  for (const char* name : {"alpha", "beta", "transA", "transB"}) {
    if (const AttributeValue* value = s.find(name)) attributes[name] = {*value, ""};
  }
  std::vector<Value> inputs;
  for (int i = 0; i < s.count(); ++i) inputs.push_back(s.value(i));
  return {activated(s, s.part("Gemm", inputs, attributes).tensor(), [&](int i, double usual) {
    return s.number(i == 0 ? "activation_alpha" : "activation_beta", usual);
  })};
}

// A convolution, a bias, a tensor that is added, and an activation.
std::vector<Value> fused_conv(const NodeScope& s) {
  Tensor y = convolution(s, s.tensor(0), s.tensor(1), conv_attributes(s, 1), s.optional_tensor(2));
  if (s.has(3)) y = ops::add(y, s.tensor(3), s.at());
  const std::vector<float> given = s.numbers("activation_params");
  return {activated(s, y, [&](int i, double usual) {
    const auto at = static_cast<size_t>(i);
    return at < given.size() ? static_cast<double>(given[at]) : usual;
  })};
}

/// The weights of MatMulNBits: numbers of few bits, the lowest first in each byte, in blocks along K
/// with a scale and a zero point each.
class FewBits {
 public:
  explicit FewBits(const NodeScope& s)
      : s_(s),
        k_(s.integer("K")),
        n_(s.integer("N")),
        block_(s.integer("block_size")),
        bits_(s.integer("bits", 4)) {
    if (bits_ != 2 && bits_ != 4 && bits_ != 8)
      s.fail("attribute 'bits' is " + std::to_string(bits_), "it is 2, 4 or 8");
    if (k_ < 1 || n_ < 1 || block_ < 1 || block_ * bits_ % 8 != 0)
      s.fail("blocks of " + std::to_string(block_) + " of " + std::to_string(k_) + " numbers");
    if (s.has(4)) s.fail("an order of the groups ('g_idx') is not supported");
    blocks_ = (k_ + block_ - 1) / block_;
    check(1, n_ * blocks_ * (block_ * bits_ / 8));
    check(2, n_ * blocks_);
    if (s.has(3) && s.dtype(3) == u8) check(3, n_ * ((blocks_ * bits_ + 7) / 8));
    if (s.has(3) && s.dtype(3) != u8) check(3, n_ * blocks_);
  }

  /// (N, K), in the type of the scales.
  Tensor weights() const {
    const Tensor packed = ops::reshape(s_.tensor(1), {n_, blocks_, -1}, s_.at());
    const Tensor scales = ops::reshape(s_.tensor(2), {n_, blocks_}, s_.at());
    Tensor zeros;
    if (s_.has(3)) zeros = ops::reshape(s_.tensor(3), {n_, -1}, s_.at());
    const DataType type = scales.dtype();
    return compute(
        Shape{n_, k_},
        [&](Axis n, Axis k) {
          const Expr block = floordiv(k, block_), inner = floormod(k, block_);
          const Expr q = number(packed(n, block, floordiv(inner, 8 / bits_)), inner);
          Expr zero = make_const(i32, static_cast<double>(1 << (bits_ - 1)));
          if (zeros && zeros.dtype() != u8)
            return (cast(type, q) - zeros(n, block)) * scales(n, block);
          if (zeros) zero = number(zeros(n, floordiv(block, 8 / bits_)), block);
          return cast(type, q - zero) * scales(n, block);
        },
        "dequantize_bits", "dequantize", s_.at());
  }

 private:
  void check(int input, int64_t elements) const {
    if (s_.value(input).size() != elements)
      s_.fail("its input " + std::to_string(input) + " " + shape_text(s_.shape(input)) +
              " has not " + std::to_string(elements) + " elements");
  }

  /// Number `i` of those in a row of bytes, of which `byte` has it.
  Expr number(const Expr& byte, const Expr& i) const {
    if (bits_ == 8) return cast(i32, byte);
    const Expr shift = cast(i32, floormod(i, 8 / bits_)) * static_cast<int>(bits_);
    return bitwise_and(shift_right(cast(i32, byte), shift),
                       make_const(i32, static_cast<double>((1 << bits_) - 1)));
  }

  const NodeScope& s_;
  int64_t k_, n_, block_, bits_, blocks_ = 0;
};

std::vector<Value> matmul_few_bits(const NodeScope& s) {
  const Tensor x = s.tensor(0);
  if (x.extent(-1) != s.integer("K"))
    s.fail("its input " + shape_text(x.extents()) +
           " has not K = " + std::to_string(s.integer("K")) + " columns");
  Tensor weights = FewBits(s).weights();
  if (weights.dtype() != x.dtype()) weights = ops::cast(weights, x.dtype(), s.at());
  const Tensor y = ops::matmul(x, weights, false, true, {.output = x.dtype()}, s.at());
  return {s.has(5) ? ops::add(y, s.tensor(5), s.at()) : y};
}

}  // namespace

std::vector<OperatorEntry> microsoft_product_operators() {
  return {{"FusedConv", fused_conv},
          {"FusedGemm", fused_gemm},
          {"FusedMatMul", fused_matmul},
          {"MatMulNBits", matmul_few_bits}};
}

}  // namespace heddle::onnx
