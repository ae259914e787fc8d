// Linear attention, whose state is carried from step to step.
#include <cmath>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/transform.h"
#include "onnx/operators/attention.h"

namespace heddle::onnx {
namespace {

/// The recurrence of linear attention. A state (N, G, E, F) is decayed, corrected and written in each
/// step, and read by the queries.
class LinearAttention {
 public:
  explicit LinearAttention(const NodeScope& s) : s_(s) {
    const int64_t heads = s.integer("q_num_heads"), groups = s.integer("kv_num_heads");
    if (heads < 1 || groups < 1 || heads % groups != 0)
      s.fail(std::to_string(heads) + " heads cannot share " + std::to_string(groups));
    times_ = heads / groups;
    const auto input = [&](int i, int64_t count) {
      const Tensor x = s.tensor(i);
      return heads_first(s, x.dtype() == f32 ? x : ops::cast(x, f32, s.at()), count);
    };
    q_ = input(0, heads);
    k_ = input(1, groups);
    v_ = input(2, groups);
    const std::string rule = s.text("update_rule", "gated_delta");
    const bool gated = rule == "gated" || rule == "gated_delta";
    const bool delta = rule == "delta" || rule == "gated_delta";
    if (!gated && !delta && rule != "linear") s.fail("attribute 'update_rule' is '" + rule + "'");
    if (gated != s.has(4) || delta != s.has(5))
      s.fail("its inputs 'decay' and 'beta' do not fit the rule '" + rule + "'");
    if (gated) decay_ = input(4, groups);
    if (delta) beta_ = input(5, s.shape(5)[2]);
    scale_ = s.number("scale", 0.0);
    if (scale_ == 0) scale_ = 1 / std::sqrt(static_cast<double>(k_.extent(3)));
  }

  std::vector<Value> run() {
    const DataType type = s_.dtype(0);
    Tensor state = s_.has(3)
                       ? s_.tensor(3)
                       : ops::zeros(Extents{k_.extent(0), k_.extent(1), k_.extent(3), v_.extent(3)},
                                    f32, s_.at());
    const DataType kept = s_.has(3) ? state.dtype() : type;
    if (state.dtype() != f32) state = ops::cast(state, f32, s_.at());
    std::vector<Tensor> rows;
    for (int64_t t = 0; t < q_.extent(2); ++t) {
      state = step(state, t);
      rows.push_back(read(state, t));
    }
    Tensor y = heads_last(s_, ops::stack(rows, 2, s_.at()));
    if (type != f32) y = ops::cast(y, type, s_.at());
    if (kept != f32) state = ops::cast(state, kept, s_.at());
    return {y, state};
  }

 private:
  Tensor step(const Tensor& before, int64_t t) const {
    Tensor state = before;
    if (decay_)
      state = compute(
          before.shape(),
          [&](Axis n, Axis g, Axis e, Axis f) {
            const Expr at = decay_.extent(3) > 1 ? Expr(e) : Expr(0);
            return before(n, g, e, f) * exp(decay_(n, g, t, at));
          },
          "linear_attention_decay", "linear_attention", s_.at());
    Tensor written = ops::squeeze(ops::slice(v_, {t}, {t + 1}, {2}, {}, s_.at()), {2}, s_.at());
    if (beta_) {
      const Axis e = reduce_axis(k_.extent(3), "e", s_.at());
      const Tensor known = compute(
          written.shape(),
          [&](Axis n, Axis g, Axis f) { return sum(state(n, g, e, f) * k_(n, g, t, e), e); },
          "linear_attention_known", "linear_attention", s_.at());
      const Tensor v = written;
      written = compute(
          v.shape(),
          [&](Axis n, Axis g, Axis f) {
            const Expr at = beta_.extent(1) > 1 ? Expr(g) : Expr(0);
            return beta_(n, at, t, 0) * (v(n, g, f) - known(n, g, f));
          },
          "linear_attention_delta", "linear_attention", s_.at());
    }
    return compute(
        state.shape(),
        [&](Axis n, Axis g, Axis e, Axis f) {
          return state(n, g, e, f) + k_(n, g, t, e) * written(n, g, f);
        },
        "linear_attention_state", "linear_attention", s_.at());
  }

  Tensor read(const Tensor& state, int64_t t) const {
    const Axis e = reduce_axis(k_.extent(3), "e", s_.at());
    const Tensor sums = compute(
        Shape{q_.extent(0), q_.extent(1), v_.extent(3)},
        [&](Axis n, Axis h, Axis f) {
          return sum(q_(n, h, t, e) * state(n, floordiv(h, times_), e, f), e);
        },
        "linear_attention_read", "linear_attention", s_.at());
    return ops::mul(sums, make_const(f32, scale_), s_.at());
  }

  const NodeScope& s_;
  int64_t times_ = 1;
  double scale_ = 0;
  Tensor q_, k_, v_, decay_, beta_;
};

std::vector<Value> linear_attention(const NodeScope& s) { return LinearAttention(s).run(); }

}  // namespace

std::vector<OperatorEntry> linear_attention_operators() {
  return {{"LinearAttention", linear_attention}};
}

}  // namespace heddle::onnx
