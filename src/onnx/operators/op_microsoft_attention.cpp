// Attention of com.microsoft: Attention, MultiHeadAttention, GroupQueryAttention, RotaryEmbedding.
#include <algorithm>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/transform.h"
#include "onnx/operators/attention.h"

namespace heddle::onnx {
namespace {

/// Elements begin..end of a dimension.
Tensor part(const NodeScope& s, const Tensor& x, int axis, int64_t begin, int64_t end) {
  return ops::slice(x, {begin}, {end}, {axis}, {}, s.at());
}

/// Element i of a dimension, which is dropped.
Tensor element(const NodeScope& s, const Tensor& x, int axis, int64_t i) {
  return ops::squeeze(part(s, x, axis, i, i + 1), {axis}, s.at());
}

/// What input `i` adds to the scores (N, H, L, T): a large negative number for keys that are not
/// attended to. It is the lengths (N) of the keys, their ends and starts (2 N), or a mask (N, T) or
/// (N, L, T) that is 0 for such keys. The type is that of the products.
Tensor mask_of_keys(const NodeScope& s, int i, int64_t n, int64_t keys, DataType type) {
  const Tensor mask = s.tensor(i);
  const Expr none = make_const(type, 0);
  const Expr masked = make_const(type, s.number("mask_filter_value", -10000.0F));
  const bool of_lengths = mask.rank() == 1 && (mask.size() == n || mask.size() == 2 * n);
  const bool of_keys =
      (mask.rank() == 2 || mask.rank() == 3) && mask.extent(0) == n && mask.extent(-1) == keys;
  if (!of_lengths && !of_keys)
    s.fail("a mask " + shape_text(mask.extents()) + " is not supported for " + std::to_string(n) +
               " sequences of " + std::to_string(keys) + " keys",
           "it is (N) or (2 N) of lengths, or (N, keys) or (N, queries, keys)");
  return compute(
      Shape{n, 1, mask.rank() == 3 ? mask.extent(1) : 1, keys},
      [&](Axis b, Axis, Axis l, Axis t) {
        if (of_keys)
          return select(
              (mask.rank() == 3 ? mask(b, l, t) : mask(b, t)) > make_const(mask.dtype(), 0), none,
              masked);
        Expr inside = Expr(t) < cast(i64, mask(b));
        if (mask.size() == 2 * n) inside = logical_and(inside, Expr(t) >= cast(i64, mask(b + n)));
        return select(inside, none, masked);
      },
      "attention_mask", "attention_mask", s.at());
}

/// Both, where each may be missing.
Tensor sum_of_masks(const NodeScope& s, const Tensor& a, const Tensor& b) {
  return a && b ? ops::add(a, b, s.at()) : a ? a : b;
}

std::vector<Value> attention(const NodeScope& s) {
  const int64_t heads = s.integer("num_heads");
  if (s.integer("do_rotary", 0) != 0) s.fail("attribute 'do_rotary' is not supported");
  if (s.has(6)) s.fail("a past in a buffer of another length is not supported");
  const Tensor x = s.tensor(0), weight = s.tensor(1);
  std::vector<int64_t> sizes = s.integers("qkv_hidden_sizes");
  if (sizes.empty()) sizes.assign(3, weight.extent(-1) / 3);
  if (sizes.size() != 3 || x.rank() != 3 || sizes[0] + sizes[1] + sizes[2] != weight.extent(-1))
    s.fail("its weight " + shape_text(weight.extents()) + " does not fit its input " +
           shape_text(x.extents()));
  Tensor all = ops::matmul(x, weight, false, false, {.output = x.dtype()}, s.at());
  if (s.has(2)) all = ops::add(all, s.tensor(2), s.at());
  const std::vector<Tensor> parts = ops::split(all, sizes, -1, s.at());
  const Tensor q = heads_first(s, parts[0], heads);
  Tensor k = heads_first(s, parts[1], heads), v = heads_first(s, parts[2], heads);
  int64_t past = 0;
  if (s.has(4) && s.value(4).size() > 0) {
    if (s.rank(4) != 5) s.fail("its past " + shape_text(s.shape(4)) + " is not (2, N, H, P, E)");
    past = s.shape(4)[3];
    k = ops::concat({element(s, s.tensor(4), 0, 0), k}, 2, s.at());
    v = ops::concat({element(s, s.tensor(4), 0, 1), v}, 2, s.at());
  }
  Tensor mask;
  if (s.has(3)) mask = mask_of_keys(s, 3, x.extent(0), k.extent(2), x.dtype());
  const Tensor y = ops::attention(q, k, v,
                                  {.mask = sum_of_masks(s, mask, s.optional_tensor(5)),
                                   .scale = s.number("scale", 0.0),
                                   .causal = s.integer("unidirectional", 0) != 0,
                                   .offset = past},
                                  s.at())
                       .result;
  std::vector<Value> results{heads_last(s, y)};
  if (s.node().outputs.size() > 1) results.emplace_back(ops::stack({k, v}, 0, s.at()));
  return results;
}

/// Queries, keys and values (N, heads, length, size), which may be packed in one or two inputs.
struct Operands {
  Tensor q, k, v;
};

Operands operands_of(const NodeScope& s, int64_t heads) {
  const Tensor x = s.tensor(0);
  const auto unpacked = [&](const Tensor& packed, int64_t i) {
    return ops::transpose(element(s, packed, 3, i), {0, 2, 1, 3}, s.at());
  };
  if (x.rank() == 5) return {unpacked(x, 0), unpacked(x, 1), unpacked(x, 2)};
  const auto biased = [&](const Tensor& t, int64_t begin) {
    if (!s.has(3) || t.rank() != 3) return t;
    return ops::add(t, part(s, s.tensor(3), 0, begin, begin + t.extent(2)), s.at());
  };
  const Tensor q = heads_first(s, biased(x, 0), heads), k = s.tensor(1);
  if (k.rank() == 5) return {q, unpacked(k, 0), unpacked(k, 1)};
  const int64_t after_q = x.extent(2), after_k = after_q + (k.rank() == 3 ? k.extent(2) : 0);
  return {q, heads_first(s, biased(k, after_q), heads),
          heads_first(s, biased(s.tensor(2), after_k), heads)};
}

std::vector<Value> multi_head_attention(const NodeScope& s) {
  const int64_t heads = s.integer("num_heads");
  if (s.has(8) || s.has(9)) s.fail("a past in a buffer of another length is not supported");
  Operands o = operands_of(s, heads);
  o.k = after_past(s, 6, o.k);
  o.v = after_past(s, 7, o.v);
  Tensor mask;
  if (s.has(4)) mask = mask_of_keys(s, 4, o.q.extent(0), o.k.extent(2), o.q.dtype());
  const Tensor y = ops::attention(o.q, o.k, o.v,
                                  {.mask = sum_of_masks(s, mask, s.optional_tensor(5)),
                                   .scale = s.number("scale", 0.0),
                                   .causal = s.integer("unidirectional", 0) != 0,
                                   .offset = past_length(s, 6)},
                                  s.at())
                       .result;
  return {heads_last(s, y), o.k, o.v};
}

/// Attention to the keys of a cache, in which each sequence has a length of its own.
class GroupQuery {
 public:
  explicit GroupQuery(const NodeScope& s)
      : s_(s), heads_(s.integer("num_heads")), groups_(s.integer("kv_num_heads")) {
    if (s.integer("smooth_softmax", 0) > 0 || s.has(11))
      s.fail("a softmax with a sink is not supported");
    const Tensor x = s.tensor(0);
    if (heads_ < 1 || groups_ < 1 || heads_ % groups_ != 0 || x.rank() != 3)
      s.fail(std::to_string(heads_) + " heads of its input " + shape_text(x.extents()) +
             " cannot share " + std::to_string(groups_));
    if (s.has(1)) {
      q_ = heads_first(s, x, heads_);
      k_ = heads_first(s, s.tensor(1), groups_);
      v_ = heads_first(s, s.tensor(2), groups_);
    } else {
      const int64_t size = x.extent(2) / (heads_ + 2 * groups_);
      const std::vector<Tensor> parts =
          ops::split(x, {heads_ * size, groups_ * size, groups_ * size}, -1, s.at());
      q_ = heads_first(s, parts[0], heads_);
      k_ = heads_first(s, parts[1], groups_);
      v_ = heads_first(s, parts[2], groups_);
    }
    past_ = past_length(s, 3);
    find_rows();
    find_lengths();
  }

  std::vector<Value> run() {
    rotate();
    const Tensor k = cached(3, k_), v = cached(4, v_);
    ops::AttentionAttributes a{.mask = s_.optional_tensor(10),
                               .scale = s_.number("scale", 0.0),
                               .softcap = s_.number("softcap", 0.0),
                               .causal = true,
                               .left = window(),
                               .offset = past_};
    if (before_ && !ends_together()) a.offsets = before_;
    if (before_ && ends_together()) a.mask = own_keys(), a.empty_rows = true;
    return {heads_last(s_, ops::attention(q_, k, v, a, s_.at()).result), k, v};
  }

 private:
  /// A window counts the key of the query itself.
  int64_t window() const {
    const int64_t size = s_.integer("local_window_size", -1);
    if (size == 0) s_.fail("attribute 'local_window_size' is 0");
    return size < 0 ? -1 : size - 1;
  }

  /// Whether the past is a state: the rows of all sequences end where the keys do, and those of a shorter one
  /// begin later (OnnxOptions::each_sequence).
  bool ends_together() const { return s_.options().states && past_ > 0; }

  /// The keys that are rows of their sequence, where these end together.
  Tensor own_keys() const {
    if (s_.has(10)) s_.fail("its input 10 has no meaning for sequences of different lengths");
    return compute(
        Shape{q_.extent(0), 1, 1, rows_},
        [&](Axis b, Axis, Axis, Axis t) {
          return Expr(t) >= Expr(rows_ - q_.extent(2)) - before_(b);
        },
        "own_keys", "attention_mask", s_.at());
  }

  // The keys of a call are as many as the longest sequence has, input 6, or as the past has room for.
  void find_rows() {
    const int64_t added = q_.extent(2);
    rows_ = past_ + added;
    if (past_ == 0 || ends_together()) return;
    if (!s_.has(6) || !s_.value(6).known())
      s_.fail(
          "its input 6, the length of the longest sequence, is not known at import, and tells "
          "whether its past is a buffer with room for the new keys",
          "make it a constant, or compute it of the shape of an input, such as that of the mask");
    rows_ = std::max(past_, s_.known_integer(6, "length of the longest sequence"));
    if (rows_ < added || rows_ > past_ + added)
      s_.fail("its longest sequence has " + std::to_string(rows_) + " keys, with " +
              std::to_string(past_) + " of the past and " + std::to_string(added) + " new ones");
  }

  // Input 5 has the last position of each sequence. Where all follow a full past, which a known
  // input shows, nothing depends on it.
  void find_lengths() {
    if (ends_together() && !s_.options().each_sequence) return;
    const int64_t last = past_ + q_.extent(2) - 1;
    if (s_.value(5).known() && rows_ > last) {
      const std::vector<int64_t> given = s_.known_integers(5, "last positions");
      if (std::all_of(given.begin(), given.end(), [&](int64_t i) { return i == last; })) return;
    }
    if (s_.value(5).size() != q_.extent(0))
      s_.fail("its input 5 " + shape_text(s_.shape(5)) + " has not one length a sequence");
    const Tensor lasts = ops::reshape(s_.tensor(5), {q_.extent(0)}, s_.at());
    before_ = ops::elementwise(
        "attention_past", {lasts},
        [&](const std::vector<Expr>& v) {
          const Expr before = cast(i64, v[0]) + (1 - q_.extent(2));
          if (ends_together()) return before;
          return heddle::max(heddle::min(before, Expr(rows_ - q_.extent(2))), Expr(0));
        },
        s_.at());
  }

  void rotate() {
    if (s_.integer("do_rotary", 0) == 0) return;
    Tensor at = s_.optional_tensor(9);
    const int64_t n = q_.extent(0), l = q_.extent(2);
    if (!at)
      at = compute(
          Shape{n, l},
          [&](Axis b, Axis i) {
            const Expr position = (before_ ? before_(b) : Expr(past_)) + Expr(i);
            // Columns before the tokens of a shorter sequence have none.
            return ends_together() ? heddle::max(position, Expr(0)) : position;
          },
          "positions", "positions", s_.at());
    const bool interleaved = s_.integer("rotary_interleaved", 0) != 0;
    if (ends_together() && s_.shape(7).at(0) < rows_)
      s_.fail("its angles are those of " + std::to_string(s_.shape(7)[0]) + " positions, and " +
                  std::to_string(rows_) + " are asked for",
              "give the past fewer rows, or export the model with more positions");
    const Tensor cosines = ops::gather(s_.tensor(7), at, 0, s_.at());
    const Tensor sines = ops::gather(s_.tensor(8), at, 0, s_.at());
    q_ = ops::rotary_embedding(q_, cosines, sines, interleaved, s_.at());
    k_ = ops::rotary_embedding(k_, cosines, sines, interleaved, s_.at());
  }

  /// Keys or values behind those of the past, as many of which there are.
  Tensor cached(int past, const Tensor& x) const {
    if (past_ == 0) return x;
    if (!before_ || ends_together()) return after_past(s_, past, x);
    const Tensor old = s_.tensor(past);
    const int64_t rows = x.extent(2);
    return compute(
        Shape{x.extent(0), x.extent(1), rows_, x.extent(3)},
        [&](Axis b, Axis g, Axis t, Axis e) {
          const Expr from = t - before_(b);
          const Expr row = heddle::max(heddle::min(from, Expr(rows - 1)), Expr(0));
          const Expr added = select(from < rows, x(b, g, row, e), make_const(x.dtype(), 0));
          return select(from < 0, old(b, g, heddle::min(Expr(t), Expr(past_ - 1)), e), added);
        },
        "attention_cache", "attention_cache", s_.at());
  }

  const NodeScope& s_;
  int64_t heads_, groups_;
  int64_t past_ = 0, rows_ = 0;  ///< rows of the past, and of the keys with the new ones
  Tensor q_, k_, v_;
  Tensor before_;  ///< (N), the length of each past; undefined where it is `past_`
};

std::vector<Value> group_query_attention(const NodeScope& s) { return GroupQuery(s).run(); }

std::vector<Value> rotary_embedding(const NodeScope& s) {
  if (s.number("scale", 1.0) != 1 || s.integer("is_packed_batching", 0) != 0)
    s.fail("attributes 'scale' and 'is_packed_batching' are not supported");
  return {rotated(s, s.tensor(0), s.tensor(2), s.tensor(3), s.tensor(1))};
}

}  // namespace

std::vector<OperatorEntry> microsoft_attention_operators() {
  return {{"Attention", attention},
          {"GroupQueryAttention", group_query_attention},
          {"MultiHeadAttention", multi_head_attention},
          {"RotaryEmbedding", rotary_embedding}};
}

}  // namespace heddle::onnx
