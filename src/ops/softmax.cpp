// Softmax and attention. Each pass over the row is a stage; the exponentials are a stage too, so
// that the schedule chooses between storing and recomputing them.
#include <cmath>
#include <utility>

#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/nn.h"
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

Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v,
                                    const Tensor& mask, double scale, Where where) {
  const Call call{"scaled_dot_product_attention", where};
  impl::check_rank(call, q, "q", 2);
  impl::check_rank(call, k, "k", 2);
  impl::check_rank(call, v, "v", 2);
  impl::check_float(call, q, "q");
  if (q.extent(-1) != k.extent(-1) || k.extent(-2) != v.extent(-2))
    impl::fail(call,
               "q " + impl::text(q.extents()) + ", k " + impl::text(k.extents()) + " and v " +
                   impl::text(v.extents()) + " do not go together",
               "q is (..., L, E), k is (..., S, E), v is (..., S, F)");
  const double factor = scale == 0 ? 1.0 / std::sqrt(static_cast<double>(q.extent(-1))) : scale;
  const DataType wide = impl::wide(q.dtype());
  // Scores stay in the wide type up to the weights, because they grow with E and exp magnifies
  // errors.
  const Tensor products = matmul(q, k, false, true, {.accumulate = wide, .output = wide}, where);
  std::vector<Tensor> inputs{products};
  if (mask) inputs.push_back(mask);
  const bool is_bool = mask && mask.dtype().is_bool();
  if (mask && !is_bool && !mask.dtype().is_float())
    impl::fail(call, "argument 'mask' is " + impl::describe(mask) + ", and needs bool or floats");
  if (mask && impl::broadcast_dims(call, inputs) != products.extents())
    impl::fail(call, "'mask' " + impl::text(mask.extents()) + " does not broadcast to the scores " +
                         impl::text(products.extents()));
  const Tensor scores = elementwise(
      "attention_scores", inputs,
      [&](const std::vector<Expr>& e) -> Expr {
        const Expr scaled = e[0] * factor;
        if (e.size() == 1) return scaled;
        if (is_bool) return select(e[1], scaled, lowest_value(wide));
        return scaled + heddle::cast(wide, e[1]);
      },
      where);
  // Rows are divided by their sums last, which divides (L, F) products in place of (L, S) weights.
  // The weights are at most 1 in either order.
  const Weights w = weights_of({"softmax", where}, scores, -1);
  const Tensor sums = matmul(impl::convert(call, w.powers, v.dtype()), v, false, false,
                             {.accumulate = wide, .output = wide}, where);
  return compute(
      sums.shape(),
      [&](const std::vector<Axis>& i) {
        return heddle::cast(v.dtype(), w.scale.at(w.plan.target(i)) * sums(i));
      },
      "attention", call.op, where);
}

}  // namespace heddle::ops
