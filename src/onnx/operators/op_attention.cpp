// Attention, and what language models have beside it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "heddle/ops/conv.h"
#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/transform.h"
#include "onnx/operators/attention.h"

namespace heddle::onnx {

Tensor heads_first(const NodeScope& s, const Tensor& x, int64_t heads) {
  if (x.rank() == 4) return x;
  if (x.rank() != 3 || heads < 1 || x.extent(2) % heads != 0)
    s.fail("its input " + shape_text(x.extents()) + " cannot be cut into " + std::to_string(heads) +
           " heads");
  const Tensor parts =
      ops::reshape(x, {x.extent(0), x.extent(1), heads, x.extent(2) / heads}, s.at());
  return ops::transpose(parts, {0, 2, 1, 3}, s.at());
}

Tensor heads_last(const NodeScope& s, const Tensor& x) {
  const Tensor t = ops::transpose(x, {0, 2, 1, 3}, s.at());
  return ops::reshape(t, {t.extent(0), t.extent(1), t.extent(2) * t.extent(3)}, s.at());
}

int64_t past_length(const NodeScope& s, int past) {
  if (!s.has(past)) return 0;
  if (s.rank(past) != 4)
    s.fail("its past " + shape_text(s.shape(past)) + " needs to be (N, H, P, E)");
  return s.shape(past)[2];
}

Tensor after_past(const NodeScope& s, int past, const Tensor& x) {
  if (past_length(s, past) == 0) return x;
  return ops::concat({s.tensor(past), x}, 2, s.at());
}

Tensor rotated(const NodeScope& s, const Tensor& x, Tensor cosines, Tensor sines,
               const Tensor& positions) {
  const int64_t heads_of_rows = s.integer("num_heads", 0);
  const int64_t size = x.extent(-1);
  int64_t heads = heads_of_rows;
  if (x.rank() == 3 && heads == 0 && cosines.extent(-1) > 0)
    heads = size / (2 * cosines.extent(-1));
  const Tensor parts = heads_first(s, x, heads);
  const int64_t n = parts.extent(0), l = parts.extent(2);
  Tensor at = positions;
  if (at && at.size() == 1 && n * l > 1) {
    const Tensor first = ops::reshape(at, {}, s.at());
    at = compute(
        Shape{n, l}, [&](Axis, Axis i) { return cast(i64, first.at({})) + i; }, "positions",
        "positions", s.at());
  }
  if (at) {
    at = ops::reshape(at, {at.size() / l, l}, s.at());
    cosines = ops::gather(cosines, at, 0, s.at());
    sines = ops::gather(sines, at, 0, s.at());
  }
  const int64_t part = s.integer("rotary_embedding_dim", 0);
  if (part != 0 && part != 2 * cosines.extent(-1))
    s.fail("attribute 'rotary_embedding_dim' is " + std::to_string(part) +
           ", and the caches rotate " + std::to_string(2 * cosines.extent(-1)));
  const Tensor y =
      ops::rotary_embedding(parts, cosines, sines, s.integer("interleaved", 0) != 0, s.at());
  return x.rank() == 3 ? heads_last(s, y) : y;
}

namespace {

std::vector<Value> rotary_embedding(const NodeScope& s) {
  return {rotated(s, s.tensor(0), s.tensor(1), s.tensor(2), s.optional_tensor(3))};
}

/// The mask with as many keys as there are: those that it lacks are not attended to.
Tensor whole_mask(const NodeScope& s, int64_t keys) {
  const Tensor mask = s.optional_tensor(3);
  // Before opset 24 the text lets a mask of one key stand for all.
  const bool for_all = s.opset() < 24 && mask && mask.rank() > 0 && mask.extent(-1) == 1;
  if (!mask || mask.rank() == 0 || mask.extent(-1) == keys || for_all) return mask;
  std::vector<int64_t> before(static_cast<size_t>(mask.rank()), 0), after = before;
  after.back() = keys - mask.extent(-1);
  if (after.back() < 0)
    s.fail("its mask " + shape_text(mask.extents()) + " has more than " + std::to_string(keys) +
           " keys");
  const double value = mask.dtype().is_bool() ? 0 : -std::numeric_limits<double>::infinity();
  return ops::pad(mask, before, after, ops::PadMode::Constant, value, s.at());
}

/// The products after the steps that `mode` asks for.
Tensor scores_of(const NodeScope& s, const ops::AttentionResult& r,
                 const ops::AttentionAttributes& a, double scale, DataType type) {
  const int64_t mode = s.integer("qk_matmul_output_mode", 0);
  if (mode < 0 || mode > 3) s.fail("attribute 'qk_matmul_output_mode' is " + std::to_string(mode));
  const auto convert = [&](const Tensor& t) {
    return t.dtype() == type ? t : ops::cast(t, type, s.at());
  };
  if (mode == 2) return convert(r.scores);
  if (mode < 2)
    return ops::elementwise(
        "attention_products", {r.products},
        [&](const std::vector<Expr>& v) {
          Expr x = v[0] * scale;
          if (mode == 1 && a.softcap != 0) x = tanh(x * (1.0 / a.softcap)) * a.softcap;
          return cast(type, x);
        },
        s.at());
  if (!r.attended) return convert(ops::softmax(r.scores, -1, s.at()));
  const Expr none = make_const(r.scores.dtype(), 0);
  const Tensor scores = ops::elementwise(
      "attended_scores", {r.attended, r.scores},
      [&](const std::vector<Expr>& v) { return select(v[0], v[1], none); }, s.at());
  return ops::elementwise(
      "attention_weights", {r.attended, ops::softmax(scores, -1, s.at())},
      [&](const std::vector<Expr>& v) { return cast(type, select(v[0], v[1], none)); }, s.at());
}

std::vector<Value> attention(const NodeScope& s) {
  const Tensor x = s.tensor(0);
  const bool rows = x.rank() == 3;
  const int64_t heads = s.integer("q_num_heads", 0), groups = s.integer("kv_num_heads", 0);
  const Tensor q = heads_first(s, x, heads);
  const Tensor k = after_past(s, 4, heads_first(s, s.tensor(1), groups));
  const Tensor v = after_past(s, 5, heads_first(s, s.tensor(2), groups));
  ops::AttentionAttributes a{.mask = whole_mask(s, k.extent(2)),
                             .scale = s.number("scale", 0.0),
                             .softcap = s.number("softcap", 0.0),
                             .causal = s.integer("is_causal", 0) != 0,
                             .left = s.integer("left_window_size", -1),
                             .right = s.integer("right_window_size", -1),
                             .offset = past_length(s, 4),
                             .empty_rows = true};
  if (s.has(6)) {
    a.lengths = s.tensor(6);
    a.offsets = ops::elementwise(
        "attention_offsets", {a.lengths},
        [&](const std::vector<Expr>& n) { return cast(i64, n[0]) - q.extent(2); }, s.at());
  }
  const ops::AttentionResult r = ops::attention(q, k, v, a, s.at());
  std::vector<Value> results{rows ? heads_last(s, r.result) : r.result, k, v};
  const double scale = a.scale != 0 ? a.scale : 1.0 / std::sqrt(static_cast<double>(q.extent(3)));
  if (s.node().outputs.size() > 3) results.emplace_back(scores_of(s, r, a, scale, x.dtype()));
  return results;
}

std::vector<Value> swiglu(const NodeScope& s) {
  if (s.shape(0) != s.shape(1)) s.fail("its inputs differ in shape");
  const double alpha = s.number("alpha", 1.0);
  const DataType type = s.dtype(0), wide = type.bits == 64 ? f64 : f32;
  return {ops::elementwise(
      "swiglu", {s.tensor(0), s.tensor(1)},
      [&](const std::vector<Expr>& v) {
        const Expr a = cast(wide, v[0]);
        const Expr gate = a / (make_const(wide, 1) + exp(make_const(wide, -alpha) * a));
        return cast(type, gate * cast(wide, v[1]));
      },
      s.at())};
}

// Writes rows of updates into a cache, from a position of each batch on.
std::vector<Value> tensor_scatter(const NodeScope& s) {
  const Tensor cache = s.tensor(0), update = s.tensor(1), from = s.optional_tensor(2);
  const int axis = s.axis(s.integer("axis", -2), cache.rank());
  const std::string mode = s.text("mode", "linear");
  if (mode != "linear" && mode != "circular") s.fail("attribute 'mode' is '" + mode + "'");
  Extents wanted = cache.extents();
  const int64_t most = cache.extent(axis);
  wanted[static_cast<size_t>(axis)] = update.rank() == cache.rank() ? update.extent(axis) : 0;
  if (axis == 0 || update.extents() != wanted || update.extent(axis) > most)
    s.fail("its update " + shape_text(update.extents()) + " does not fit the cache " +
           shape_text(cache.extents()));
  const int64_t rows = update.extent(axis);
  return {compute(
      cache.shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at(i.begin(), i.end());
        Expr& place = at[static_cast<size_t>(axis)];
        if (from) place = place - cast(i64, from(i[0]));
        if (mode == "circular") place = floormod(place, most);
        const Expr inside = heddle::logical_and(place >= 0, place < rows);
        place = heddle::max(heddle::min(place, Expr(rows - 1)), Expr(0));
        return select(inside, update.at(at), cache(i));
      },
      "tensor_scatter", "tensor_scatter", s.at())};
}

// A convolution of each channel with what came before, of which the last elements are kept.
std::vector<Value> causal_conv(const NodeScope& s) {
  const Tensor x = s.tensor(0), weight = s.tensor(1);
  if (x.rank() != 3 || weight.rank() != 3 || weight.extent(0) != x.extent(1) ||
      weight.extent(1) != 1)
    s.fail("its weight " + shape_text(weight.extents()) + " does not fit its input " +
           shape_text(x.extents()));
  const std::string activation = s.text("activation", "none");
  if (activation != "none" && activation != "silu" && activation != "swish")
    s.fail("attribute 'activation' is '" + activation + "'");
  const int64_t before = weight.extent(2) - 1;
  Tensor all = x;
  if (before > 0)
    all = s.has(3) ? ops::concat({s.tensor(3), x}, 2, s.at())
                   : ops::pad(x, {0, 0, before}, {0, 0, 0}, ops::PadMode::Constant, 0, s.at());
  Tensor y = ops::conv1d(all, weight, {.groups = x.extent(1)}, s.optional_tensor(2), s.at());
  if (activation != "none") y = ops::silu(y, s.at());
  if (before == 0) return {y, s.constant(NDArray::empty({x.extent(0), x.extent(1), 0}, x.dtype()))};
  return {y, ops::slice(all, {x.extent(2)}, {x.extent(2) + before}, {2}, {}, s.at())};
}

}  // namespace

std::vector<OperatorEntry> attention_operators() {
  return {{"Attention", attention},
          {"CausalConvWithState", causal_conv},
          {"RotaryEmbedding", rotary_embedding},
          {"SwiGLU", swiglu},
          {"TensorScatter", tensor_scatter}};
}

}  // namespace heddle::onnx
