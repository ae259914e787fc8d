// Normalisations and activations of com.microsoft, as ONNX Runtime's optimisers write them.
#include "heddle/ops/elementwise.h"
#include "heddle/ops/nn.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/transform.h"
#include "onnx/node_scope.h"

namespace heddle::onnx {
namespace {

// The norm of a sum, which is an optional fourth output. The second and third are for training.
template <class Norm>
std::vector<Value> norm_of_sum(const NodeScope& s, int bias, Norm norm) {
  for (size_t o = 1; o < s.node().outputs.size() && o < 3; ++o) {
    if (!s.node().outputs[o].empty())
      s.fail("its output '" + s.node().outputs[o] + "', for training, is not supported");
  }
  Tensor sum = ops::add(s.tensor(0), s.tensor(1), s.at());
  if (s.has(bias)) sum = ops::add(sum, s.tensor(bias), s.at());
  return {norm(sum), Value(), Value(), sum};
}

std::vector<Value> skip_layer_norm(const NodeScope& s) {
  return norm_of_sum(s, 4, [&](const Tensor& x) {
    return ops::layer_norm(x, s.tensor(2), s.optional_tensor(3), -1, s.number("epsilon", 1e-12F),
                           s.at());
  });
}

std::vector<Value> skip_rms_norm(const NodeScope& s) {
  return norm_of_sum(s, 3, [&](const Tensor& x) {
    return ops::rms_norm(x, s.tensor(2), -1, s.number("epsilon", 1e-12F), s.at());
  });
}

// Rows of tables, added and normalised. The second output counts the words of each sentence.
std::vector<Value> embed_layer_norm(const NodeScope& s) {
  const Tensor words = s.tensor(0), places = s.tensor(3);
  if (words.rank() != 2) s.fail("its words " + shape_text(words.extents()) + " are not (N, L)");
  const int64_t n = words.extent(0), l = words.extent(1);
  if (!s.has(8) && places.extent(0) < l)
    s.fail("there are " + std::to_string(places.extent(0)) + " positions, and " +
           std::to_string(l) + " words");
  Tensor sum = ops::gather(s.tensor(2), words, 0, s.at());
  sum = ops::add(sum,
                 s.has(8) ? ops::gather(places, s.tensor(8), 0, s.at())
                          : ops::slice(places, {0}, {l}, {0}, {}, s.at()),
                 s.at());
  if (s.has(1)) sum = ops::add(sum, ops::gather(s.tensor(4), s.tensor(1), 0, s.at()), s.at());
  const Tensor y = ops::layer_norm(sum, s.tensor(5), s.optional_tensor(6), -1,
                                   s.number("epsilon", 1e-12F), s.at());
  const Tensor counts = s.has(7) ? ops::cast(ops::sum(s.tensor(7), {1}, false, s.at()), i32, s.at())
                                 : ops::zeros(Extents{n}, i32, s.at());
  return {y, counts, sum};
}

Tensor with_bias(const NodeScope& s) {
  return s.has(1) ? ops::add(s.tensor(0), s.tensor(1), s.at()) : s.tensor(0);
}

std::vector<Value> gelu(const NodeScope& s) { return {ops::gelu(with_bias(s), s.at())}; }
std::vector<Value> fast_gelu(const NodeScope& s) { return {ops::gelu_tanh(with_bias(s), s.at())}; }

// x * sigmoid(alpha * x), which is what Swish of the default domain is.
std::vector<Value> quick_gelu(const NodeScope& s) {
  const auto alpha = static_cast<float>(s.number("alpha", 1.702F));
  return {s.part("Swish", {s.value(0)}, {{"alpha", {alpha, ""}}})};
}

}  // namespace

std::vector<OperatorEntry> microsoft_norm_operators() {
  return {{"BiasGelu", gelu},
          {"EmbedLayerNormalization", embed_layer_norm},
          {"FastGelu", fast_gelu},
          {"Gelu", gelu},
          {"QuickGelu", quick_gelu},
          {"SkipLayerNormalization", skip_layer_norm},
          {"SkipSimplifiedLayerNormalization", skip_rms_norm}};
}

}  // namespace heddle::onnx
