// LSTM, GRU and RNN in one or both directions, and the LSTM of quantised weights.
#include "heddle/ops/recurrent.h"

#include <algorithm>
#include <optional>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/transform.h"
#include "onnx/operators/quantised.h"

namespace heddle::onnx {
namespace {

using Layer = ops::RecurrentResult (*)(const Tensor&, const ops::RecurrentWeights&,
                                       const ops::RecurrentAttributes&, Where);

ops::Activation activation(const NodeScope& s, const std::string& name, double alpha, double beta) {
  const auto c = [](const Expr& x, double v) { return make_const(x.dtype(), v); };
  if (name == "Sigmoid") return [c](const Expr& x) { return c(x, 1) / (c(x, 1) + exp(-x)); };
  if (name == "Tanh") return [](const Expr& x) { return tanh(x); };
  if (name == "Relu") return [c](const Expr& x) { return heddle::max(x, c(x, 0)); };
  if (name == "Affine") return [=](const Expr& x) { return c(x, alpha) * x + c(x, beta); };
  if (name == "LeakyRelu")
    return [=](const Expr& x) { return select(x < c(x, 0), c(x, alpha) * x, x); };
  if (name == "ThresholdedRelu")
    return [=](const Expr& x) { return select(x < c(x, alpha), c(x, 0), x); };
  if (name == "ScaledTanh")
    return [=](const Expr& x) { return c(x, alpha) * tanh(c(x, beta) * x); };
  if (name == "HardSigmoid")
    return [=](const Expr& x) {
      return heddle::min(heddle::max(c(x, alpha) * x + c(x, beta), c(x, 0)), c(x, 1));
    };
  if (name == "Elu")
    return [=](const Expr& x) { return select(x < c(x, 0), c(x, alpha) * expm1(x), x); };
  if (name == "Softsign") return [c](const Expr& x) { return x / (c(x, 1) + heddle::abs(x)); };
  if (name == "Softplus") return [c](const Expr& x) { return log(c(x, 1) + exp(x)); };
  s.fail("the activation '" + name + "' is not supported");
}

// The activations of one direction. Exporters differ in the case of names.
std::vector<ops::Activation> activations(const NodeScope& s, size_t direction, size_t count) {
  const std::vector<std::string> names = s.texts("activations");
  const std::vector<float> alphas = s.numbers("activation_alpha");
  const std::vector<float> betas = s.numbers("activation_beta");
  std::vector<ops::Activation> result;
  // The lists of numbers have entries for those functions only that take one.
  size_t alpha = 0, beta = 0;
  for (size_t i = 0; i < names.size() && i < (direction + 1) * count; ++i) {
    const std::string& n = names[i];
    double a = n == "Elu" || n == "ThresholdedRelu" ? 1
               : n == "HardSigmoid"                 ? 0.2f
                                                    : 0.01f,
           b = 0.5;
    const bool has_alpha = n == "Affine" || n == "LeakyRelu" || n == "ThresholdedRelu" ||
                           n == "ScaledTanh" || n == "HardSigmoid" || n == "Elu";
    const bool has_beta = n == "Affine" || n == "ScaledTanh" || n == "HardSigmoid";
    if (has_alpha && alpha < alphas.size()) a = static_cast<double>(alphas[alpha++]);
    if (has_beta && beta < betas.size()) b = static_cast<double>(betas[beta++]);
    if (i >= direction * count) result.push_back(activation(s, n, a, b));
  }
  if (!names.empty() && result.size() != count)
    s.fail("it needs " + std::to_string(count) + " activations a direction");
  return result;
}

// Part `d` of an input whose first dimension has one part for each direction.
Tensor of_direction(const NodeScope& s, int input, int64_t d, int directions) {
  if (!s.has(input)) return {};
  const Tensor t = s.tensor(input);
  if (t.rank() < 1 || t.extent(0) != directions)
    s.fail("its input " + std::to_string(input) + " " + shape_text(t.extents()) +
           " has not one part for each of " + std::to_string(directions) + " directions");
  return ops::squeeze(ops::slice(t, {d}, {d + 1}, {0}, {}, s.at()), {0}, s.at());
}

// Joins the tensors of the directions along a new first dimension.
Tensor joined(const NodeScope& s, const std::vector<Tensor>& parts, int axis) {
  if (parts.size() == 1) return ops::expand_dims(parts[0], {axis}, s.at());
  return ops::stack(parts, axis, s.at());
}

// The weights of input `weights` for direction `d`, of bytes (D, K, G * H), whose scale and zero point are
// inputs `scale` and the next.
ByteMatrix byte_matrix(const NodeScope& s, int weights, int scale, int64_t d, int directions) {
  ByteMatrix m{of_direction(s, weights, d, directions), of_direction(s, scale, d, directions), {}};
  if (!m.bytes || !m.scale) s.fail("it needs weights and their scales");
  if (!is_zero(s, scale + 1))
    m.zero = along(s, ops::cast(of_direction(s, scale + 1, d, directions), i32, s.at()), 0);
  return m;
}

// The matrices of a direction in `w`. Of bytes their scales and zero points are inputs 8 to 11.
void set_matrices(const NodeScope& s, int64_t d, int directions, bool of_bytes,
                  ops::RecurrentWeights& w) {
  const auto set = [&](int input, int scale, Tensor& matrix, auto& product) {
    matrix = of_direction(s, input, d, directions);
    if (!matrix) s.fail("it needs weights");
    if (!of_bytes) return;
    const ByteMatrix bytes = byte_matrix(s, input, scale, d, directions);
    matrix = ops::transpose(bytes.bytes, {1, 0}, s.at());
    product = [&s, bytes](const Tensor& x) { return dynamic_product(s, x, bytes, {}); };
  };
  set(1, 8, w.input, w.of_input);
  set(2, 10, w.recurrence, w.of_state);
}

// The lengths of the sequences; none where all have `steps` steps.
Tensor lengths(const NodeScope& s, int64_t steps) {
  if (!s.has(4)) return {};
  if (s.value(4).known()) {
    const std::vector<int64_t> all = s.known_integers(4, "sequence lengths");
    for (const int64_t length : all) {
      if (length < 0 || length > steps)
        s.fail("a sequence has " + std::to_string(length) + " of " + std::to_string(steps) +
               " steps");
    }
    if (std::count(all.begin(), all.end(), steps) == std::ssize(all)) return {};
  }
  return s.tensor(4);
}

std::vector<Value> recurrent(const NodeScope& s, Layer layer, size_t functions, bool has_cell,
                             bool of_bytes = false) {
  const bool batch_first = s.integer("layout", 0) != 0;
  const Tensor x = batch_first ? ops::transpose(s.tensor(0), {1, 0, 2}, s.at()) : s.tensor(0);
  if (x.rank() != 3) s.fail("its input " + shape_text(x.extents()) + " is no row of sequences");
  const Tensor of_sequences = lengths(s, x.extent(0));
  const std::string how = s.text("direction", "forward");
  if (how != "forward" && how != "reverse" && how != "bidirectional")
    s.fail("attribute 'direction' is '" + how + "'");
  const int directions = how == "bidirectional" ? 2 : 1;
  // With layout 1 states have the shape (N, D, H).
  const auto state = [&](int input, int64_t d) -> Tensor {
    if (!s.has(input) || !batch_first) return of_direction(s, input, d, directions);
    return ops::squeeze(ops::slice(s.tensor(input), {d}, {d + 1}, {1}, {}, s.at()), {1}, s.at());
  };
  std::optional<Recurrence> loop = s.begin_loop(x.extent(0));
  std::vector<Tensor> all, last, cells;
  for (int64_t d = 0; d < directions; ++d) {
    ops::RecurrentWeights w{{}, {}, of_direction(s, 3, d, directions), state(5, d)};
    w.lengths = of_sequences;
    set_matrices(s, d, directions, of_bytes, w);
    if (has_cell) {
      w.cell = state(6, d);
      w.peepholes = of_direction(s, 7, d, directions);
    }
    const ops::RecurrentAttributes attributes{
        .reverse = how == "reverse" || d == 1,
        .linear_before_reset = s.integer("linear_before_reset", 0) != 0,
        .input_forget = s.integer("input_forget", 0) != 0,
        .clip = s.number("clip", 0.0),
        .activations = activations(s, static_cast<size_t>(d), functions),
        .loop = loop ? &*loop : nullptr};
    const ops::RecurrentResult r = layer(x, w, attributes, s.at());
    all.push_back(r.all);
    last.push_back(r.state);
    cells.push_back(r.cell);
  }
  if (loop) s.end_loop(*loop);
  // Y has the shape (T, D, N, H), with layout 1 (N, T, D, H). The others have (D, N, H) or (N, D,
  // H).
  const int axis = batch_first ? 1 : 0;
  Tensor y = joined(s, all, 1);
  if (batch_first) y = ops::transpose(y, {2, 0, 1, 3}, s.at());
  std::vector<Value> results{y, joined(s, last, axis)};
  if (has_cell) results.emplace_back(joined(s, cells, axis));
  return results;
}

std::vector<Value> lstm(const NodeScope& s) { return recurrent(s, ops::lstm, 3, true); }
std::vector<Value> dynamic_lstm(const NodeScope& s) {
  return recurrent(s, ops::lstm, 3, true, true);
}
std::vector<Value> gru(const NodeScope& s) { return recurrent(s, ops::gru, 2, false); }
std::vector<Value> rnn(const NodeScope& s) { return recurrent(s, ops::rnn, 1, false); }

}  // namespace

std::vector<OperatorEntry> recurrent_operators() {
  return {{"GRU", gru}, {"LSTM", lstm}, {"RNN", rnn}};
}

std::vector<OperatorEntry> microsoft_recurrent_operators() {
  return {{"DynamicQuantizeLSTM", dynamic_lstm}};
}

}  // namespace heddle::onnx
