// Softmax and attention. Each pass over the row is a stage; the exponentials are a stage too, so
// that the schedule chooses between storing and recomputing them.
#include <cmath>
#include <limits>
#include <utility>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/nn.h"
#include "heddle/ops/transform.h"
#include "ops/reduction_plan.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::ReductionPlan;

struct Row {
  ReductionPlan plan;
  DataType wide;
  Tensor highest;  ///< the maximum of each row
};

Row row_of(const Call& call, const Tensor& x, int axis) {
  impl::check_rank(call, x, "x", 1);
  impl::check_float(call, x, "x");
  Row row{ReductionPlan(call, x, {axis}, false), impl::wide(x.dtype()), {}};
  row.highest = compute(
      impl::to_shape(row.plan.dims),
      [&](const std::vector<Axis>& i) {
        return reduce_max(heddle::cast(row.wide, x.at(row.plan.source(i))), row.plan.over);
      },
      std::string(call.op) + "_max", call.op, call.where);
  return row;
}

// A softmax before its last step: the exponentials, and the factor of each row.
struct Weights {
  ReductionPlan plan;
  Tensor powers, scale;
};

Weights weights_of(const Call& call, const Tensor& x, int axis) {
  const Row row = row_of(call, x, axis);
  const std::string name(call.op);
  const Tensor powers = compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        return heddle::exp(heddle::cast(row.wide, x(i)) - row.highest.at(row.plan.target(i)));
      },
      name + "_exp", call.op, call.where);
  const Tensor sums = compute(
      impl::to_shape(row.plan.dims),
      [&](const std::vector<Axis>& i) {
        return heddle::sum(powers.at(row.plan.source(i)), row.plan.over);
      },
      name + "_sum", call.op, call.where);
  // The factor is divided once for each row and not for each element. The product adds one
  // rounding, half a unit.
  const Tensor scale = compute(
      impl::to_shape(row.plan.dims),
      [&](const std::vector<Axis>& i) { return heddle::make_const(row.wide, 1) / sums(i); },
      name + "_scale", call.op, call.where);
  return {row.plan, powers, scale};
}

}  // namespace

Tensor softmax(const Tensor& x, int axis, Where where) {
  const Call call{"softmax", where};
  const Weights w = weights_of(call, x, axis);
  return compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        return heddle::cast(x.dtype(), w.powers(i) * w.scale.at(w.plan.target(i)));
      },
      call.op, call.op, where);
}

Tensor log_softmax(const Tensor& x, int axis, Where where) {
  const Call call{"log_softmax", where};
  const Row row = row_of(call, x, axis);
  const Tensor sums = compute(
      impl::to_shape(row.plan.dims),
      [&](const std::vector<Axis>& i) {
        const Expr v = heddle::cast(row.wide, x.at(row.plan.source(i)));
        return heddle::sum(heddle::exp(v - row.highest(i)), row.plan.over);
      },
      "log_softmax_sum", call.op, where);
  const Tensor logs = compute(
      impl::to_shape(row.plan.dims),
      [&](const std::vector<Axis>& i) { return heddle::log(sums(i)); }, "log_softmax_log", call.op,
      where);
  return compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        const std::vector<Expr> at = row.plan.target(i);
        const Expr shifted = heddle::cast(row.wide, x(i)) - row.highest.at(at);
        return heddle::cast(x.dtype(), shifted - logs.at(at));
      },
      call.op, call.op, where);
}

namespace {

/// Attention in the making.
class Attending {
 public:
  Attending(const Call& call, const AttentionAttributes& attributes, const Tensor& products,
            int64_t keys)
      : call_(call), a_(attributes), products_(products), keys_(keys) {}

  void check() const {
    if (a_.mask && !a_.mask.dtype().is_bool() && !a_.mask.dtype().is_float())
      impl::fail(call_,
                 "argument 'mask' is " + impl::describe(a_.mask) + ", and needs bool or floats");
    if (a_.mask && impl::broadcast_dims(call_, {products_, a_.mask}) != products_.extents())
      impl::fail(call_, "'mask' " + impl::text(a_.mask.extents()) +
                            " does not broadcast to the scores " + impl::text(products_.extents()));
    for (const auto& [name, t] : {std::pair{"offsets", a_.offsets}, {"lengths", a_.lengths}}) {
      if (t && (!t.dtype().is_integral() || t.rank() != 1 || products_.rank() < 3 ||
                t.extent(0) != products_.extent(0)))
        impl::fail(call_, "argument '" + std::string(name) + "' is " + impl::describe(t) +
                              ", and needs one integer for each of the first dimension of q");
    }
  }

  Tensor scores(double factor) const {
    const DataType wide = products_.dtype();
    return compute(
        products_.shape(),
        [&](const std::vector<Axis>& i) {
          Expr score = products_(i) * factor;
          if (a_.softcap != 0) score = heddle::tanh(score * (1.0 / a_.softcap)) * a_.softcap;
          if (a_.mask) {
            const Expr mask = impl::read_broadcast(a_.mask, i);
            score = mask.dtype().is_bool() ? select(mask, score, lowest_value(wide))
                                           : score + heddle::cast(wide, mask);
          }
          const Expr near = within(i);
          return near.defined() ? select(near, score, lowest_value(wide)) : score;
        },
        "attention_scores", "attention_scores", call_.where);
  }

  /// Whether a query may attend to no key at all.
  bool may_be_empty() const {
    return a_.empty_rows && (a_.mask || a_.lengths || a_.offsets || a_.offset < 0 ||
                             (a_.left >= 0 && a_.offset + products_.extent(-2) - a_.left > keys_));
  }

  /// Whether each query attends to any key, in as few elements as differ.
  Tensor attended() const {
    const int rank = products_.rank();
    impl::Dims dims;
    for (int d = 0; d < rank - 1; ++d) {
      const int of_mask = d - rank + (a_.mask ? a_.mask.rank() : 0);
      const bool differs = (a_.mask && of_mask >= 0 && a_.mask.extent(of_mask) > 1) ||
                           d == rank - 2 || (d == 0 && (a_.offsets || a_.lengths));
      dims.push_back(differs ? products_.extent(d) : 1);
    }
    dims.push_back(1);
    const Axis key = reduce_axis(keys_, "s", call_.where);
    return compute(
        impl::to_shape(dims),
        [&](const std::vector<Axis>& i) {
          std::vector<Axis> at(i.begin(), i.end() - 1);
          at.push_back(key);
          Expr condition = make_const(boolean, 1);
          if (a_.mask) {
            const Expr mask = impl::read_broadcast(a_.mask, at);
            condition = mask.dtype().is_bool() ? mask : mask > lowest_value(mask.dtype());
          }
          const Expr near = within(at);
          return heddle::any(near.defined() ? heddle::logical_and(condition, near) : condition,
                             key);
        },
        "attention_rows", call_.op, call_.where);
  }

 private:
  /// Whether query i[-2] may attend to key i[-1] by their positions; undefined where any may.
  Expr within(const std::vector<Axis>& i) const {
    Expr near;
    const auto require = [&](const Expr& condition) {
      near = near.defined() ? heddle::logical_and(near, condition) : condition;
    };
    const Expr key = i.back();
    if (a_.causal || a_.left >= 0 || a_.right >= 0) {
      const Expr query = i[i.size() - 2];
      const Expr position =
          query + (a_.offsets ? heddle::cast(i64, a_.offsets(i[0])) : Expr(a_.offset));
      if (a_.causal) require(key <= position);
      if (a_.left >= 0) require(key >= position - a_.left);
      if (a_.right >= 0) require(key <= position + a_.right);
    }
    if (a_.lengths) require(key < heddle::cast(i64, a_.lengths(i[0])));
    return near;
  }

  Call call_;
  const AttentionAttributes& a_;
  Tensor products_;
  int64_t keys_;
};

void check_attention(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v) {
  impl::check_rank(call, q, "q", 2);
  impl::check_rank(call, k, "k", 2);
  impl::check_rank(call, v, "v", 2);
  impl::check_float(call, q, "q");
  if (q.extent(-1) != k.extent(-1) || k.extent(-2) != v.extent(-2))
    impl::fail(call,
               "q " + impl::text(q.extents()) + ", k " + impl::text(k.extents()) + " and v " +
                   impl::text(v.extents()) + " do not go together",
               "q is (..., L, E), k is (..., S, E), v is (..., S, F)");
}

/// Keys or values with each head as often as heads of q read it.
Tensor for_heads_of(const Tensor& q, const Tensor& x, Where where) {
  const bool heads = q.rank() > 2 && x.rank() > 2 && x.extent(-3) > 1;
  if (!heads || x.extent(-3) == q.extent(-3) || q.extent(-3) % x.extent(-3) != 0) return x;
  return repeat(x, q.extent(-3) / x.extent(-3), -3, where);
}

AttentionResult attention_of(const Call& call, const Tensor& q, const Tensor& k, const Tensor& v,
                             const AttentionAttributes& attributes) {
  const Where where = call.where;
  check_attention(call, q, k, v);
  const double factor =
      attributes.scale == 0 ? 1.0 / std::sqrt(static_cast<double>(q.extent(-1))) : attributes.scale;
  const DataType wide = impl::wide(q.dtype());
  AttentionResult r;
  // Scores stay in the wide type up to the weights, because they grow with E and exp magnifies
  // errors.
  r.products = matmul(q, for_heads_of(q, k, where), false, true,
                      {.accumulate = wide, .output = wide}, where);
  const Attending attending(call, attributes, r.products, k.extent(-2));
  attending.check();
  r.scores = attending.scores(factor);
  Tensor finite = r.scores;
  if (attending.may_be_empty()) {
    r.attended = attending.attended();
    // The maximum of a row without keys is finite, so that its weights are no NaN.
    finite = elementwise(
        "attention_finite", {r.scores},
        [&](const std::vector<Expr>& e) {
          return heddle::max(e[0], make_const(wide, std::numeric_limits<float>::lowest()));
        },
        where);
  }
  // Rows are divided by their sums last, which divides (L, F) products in place of (L, S) weights.
  // The weights are at most 1 in either order.
  const Weights w = weights_of({"softmax", where}, finite, -1);
  const Tensor sums = matmul(impl::convert(call, w.powers, v.dtype()), for_heads_of(q, v, where),
                             false, false, {.accumulate = wide, .output = wide}, where);
  r.result = compute(
      sums.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr y = heddle::cast(v.dtype(), w.scale.at(w.plan.target(i)) * sums(i));
        if (!r.attended) return y;
        return select(impl::read_broadcast(r.attended, i), y, make_const(v.dtype(), 0));
      },
      "attention", call.op, where);
  return r;
}

}  // namespace

AttentionResult attention(const Tensor& q, const Tensor& k, const Tensor& v,
                          const AttentionAttributes& attributes, Where where) {
  return attention_of({"attention", where}, q, k, v, attributes);
}

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask, double scale, Where where) {
  return attention_of({"scaled_dot_product_attention", where}, q, k, v,
                      {.mask = mask, .scale = scale})
      .result;
}

}  // namespace heddle::ops
