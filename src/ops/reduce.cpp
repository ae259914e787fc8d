#include "heddle/ops/reduce.h"

#include <limits>
#include <utility>

#include "ops/reduction_plan.h"

namespace heddle::ops {
namespace impl {

ReductionPlan::ReductionPlan(const Call& call, const Tensor& x, const std::vector<int>& axes,
                             bool keepdims)
    : keepdims(keepdims), reduced(static_cast<size_t>(x.rank()), axes.empty()) {
  for (int d : normal_axes(call, axes, x.rank())) reduced[static_cast<size_t>(d)] = true;
  for (int d = 0; d < x.rank(); ++d) {
    if (!reduced[static_cast<size_t>(d)]) {
      dims.push_back(x.extent(d));
      continue;
    }
    over.push_back(reduce_axis(x.extent(d), "r" + std::to_string(d), call.where));
    count *= x.extent(d);
    if (keepdims) dims.push_back(1);
  }
}

std::vector<Expr> ReductionPlan::source(const std::vector<Axis>& at) const {
  std::vector<Expr> indices;
  size_t next = 0, next_over = 0;
  for (bool is_reduced : reduced) {
    if (is_reduced) {
      indices.push_back(over[next_over++]);
      if (keepdims) ++next;
    } else {
      indices.push_back(at[next++]);
    }
  }
  return indices;
}

std::vector<Expr> ReductionPlan::target(const std::vector<Axis>& at) const {
  std::vector<Expr> indices;
  for (size_t d = 0; d < reduced.size(); ++d) {
    if (!reduced[d])
      indices.push_back(at[d]);
    else if (keepdims)
      indices.emplace_back(0);
  }
  return indices;
}

}  // namespace impl

namespace {

using impl::Call;
using impl::ReductionPlan;

/// The result of `reduce` for the elements, converted to `type`, over the axes.
template <class Reduction>
Tensor reduction(const Call& call, const std::string& name, const Tensor& x,
                 const ReductionPlan& plan, DataType type, Reduction reduce) {
  return compute(
      impl::to_shape(plan.dims),
      [&](const std::vector<Axis>& i) {
        return reduce(heddle::cast(type, x.at(plan.source(i))), plan.over);
      },
      name, call.op, call.where);
}

/// Applies an element-wise function to reduced values and rounds to `type`.
template <class F>
Tensor finish(const Call& call, const std::string& name, const Tensor& x, DataType type, F f) {
  return compute(
      x.shape(), [&](const std::vector<Axis>& i) { return heddle::cast(type, f(x(i))); }, name,
      call.op, call.where);
}

template <class Reduction>
Tensor plain(const Call& call, const Tensor& x, const std::vector<int>& axes, bool keepdims,
             Reduction reduce, bool adds_up = false) {
  impl::check_rank(call, x, "x", 0);
  if (x.rank() == 0) return x;
  const ReductionPlan plan(call, x, axes, keepdims);
  const DataType type = adds_up ? impl::wide(x.dtype()) : x.dtype();
  return impl::convert(call, reduction(call, call.op, x, plan, type, reduce), x.dtype());
}

Tensor logical(const Call& call, const Tensor& x, const std::vector<int>& axes, bool keepdims,
               bool is_any) {
  impl::check_rank(call, x, "x", 0);
  if (!x.dtype().is_bool())
    impl::fail(call, "argument 'x' is " + impl::describe(x) + ", and needs bool",
               "compare it first, for example with ops::not_equal");
  return plain(call, x, axes, keepdims, [&](const Expr& v, const std::vector<Axis>& over) {
    return is_any ? heddle::any(v, over) : heddle::all(v, over);
  });
}

Expr sum_of(const Expr& v, const std::vector<Axis>& over) { return heddle::sum(v, over); }

void check_floats(const Call& call, const Tensor& x) {
  impl::check_rank(call, x, "x", 1);
  impl::check_float(call, x, "x");
}

Tensor arg_reduction(const Call& call, const Tensor& x, int axis, bool keepdims, bool is_max) {
  impl::check_rank(call, x, "x", 1);
  const ReductionPlan plan(call, x, {axis}, keepdims);
  const DataType type = x.dtype();
  if (type.is_bool())
    impl::fail(call, "argument 'x' is " + impl::describe(x), "convert it with ops::cast(x, u8)");
  // The index decides between equal values, so partial results may be combined in any order. The
  // index has 32 bits, so that a vector holds as many indices as f32 values. It is widened at the
  // end.
  const bool narrow = plan.over[0].extent() <= std::numeric_limits<int32_t>::max();
  const DataType index = narrow ? i32 : i64;
  const int64_t none =
      narrow ? std::numeric_limits<int32_t>::max() : std::numeric_limits<int64_t>::max();
  const Reducer arg = reducer(
      call.op, {index, type}, {none, is_max ? lowest_value(type) : highest_value(type)},
      [&](const std::vector<Expr>& a, const std::vector<Expr>& b) {
        const Expr better = is_max ? b[1] < a[1] : a[1] < b[1];
        const Expr first = heddle::logical_and(a[1] == b[1], a[0] < b[0]);
        const Expr take_a = heddle::logical_or(better, first);
        return std::vector<Expr>{select(take_a, a[0], b[0]), select(take_a, a[1], b[1])};
      },
      true, call.where);
  const Tensor best = compute_all(
      impl::to_shape(plan.dims),
      [&](const std::vector<Axis>& i) {
        return arg({heddle::cast(index, plan.over[0]), x.at(plan.source(i))}, plan.over);
      },
      call.op, call.op, call.where)[0];
  if (!narrow) return best;
  return finish(call, call.op, best, i64, [](const Expr& at) { return at; });
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& axes, bool keepdims, Where where) {
  return plain({"sum", where}, x, axes, keepdims, sum_of, true);
}

Tensor prod(const Tensor& x, const std::vector<int>& axes, bool keepdims, Where where) {
  return plain(
      {"prod", where}, x, axes, keepdims,
      [](const Expr& v, const std::vector<Axis>& over) { return heddle::prod(v, over); }, true);
}

Tensor max(const Tensor& x, const std::vector<int>& axes, bool keepdims, Where where) {
  return plain({"max", where}, x, axes, keepdims, reduce_max);
}

Tensor min(const Tensor& x, const std::vector<int>& axes, bool keepdims, Where where) {
  return plain({"min", where}, x, axes, keepdims, reduce_min);
}

Tensor any(const Tensor& x, const std::vector<int>& axes, bool keepdims, Where where) {
  return logical({"any", where}, x, axes, keepdims, true);
}

Tensor all(const Tensor& x, const std::vector<int>& axes, bool keepdims, Where where) {
  return logical({"all", where}, x, axes, keepdims, false);
}

Tensor mean(const Tensor& x, const std::vector<int>& axes, bool keepdims, Where where) {
  const Call call{"mean", where};
  check_floats(call, x);
  const ReductionPlan plan(call, x, axes, keepdims);
  const DataType wide = impl::wide(x.dtype());
  const Tensor sums = reduction(call, "mean_sum", x, plan, wide, sum_of);
  return finish(call, "mean", sums, x.dtype(), [&](const Expr& v) { return v / plan.count; });
}

Tensor var(const Tensor& x, const std::vector<int>& axes, bool keepdims, bool unbiased,
           Where where) {
  const Call call{"var", where};
  check_floats(call, x);
  const ReductionPlan plan(call, x, axes, keepdims);
  const int64_t divisor = plan.count - (unbiased ? 1 : 0);
  if (divisor == 0)
    impl::fail(call, "the unbiased variance of one element is not defined",
               "pass unbiased = false");
  const DataType wide = impl::wide(x.dtype());
  const Tensor sums = reduction(call, "var_sum", x, plan, wide, sum_of);
  const Tensor means =
      finish(call, "var_mean", sums, wide, [&](const Expr& v) { return v / plan.count; });
  const Tensor squares = compute(
      impl::to_shape(plan.dims),
      [&](const std::vector<Axis>& i) {
        const Expr d = heddle::cast(wide, x.at(plan.source(i))) - means(i);
        return heddle::sum(d * d, plan.over);
      },
      "var_squares", call.op, where);
  return finish(call, "var", squares, x.dtype(), [&](const Expr& v) { return v / divisor; });
}

Tensor logsumexp(const Tensor& x, const std::vector<int>& axes, bool keepdims, Where where) {
  const Call call{"logsumexp", where};
  check_floats(call, x);
  const ReductionPlan plan(call, x, axes, keepdims);
  const DataType wide = impl::wide(x.dtype());
  const Tensor highest = reduction(call, "logsumexp_max", x, plan, wide, reduce_max);
  // An infinite shift would turn an infinite element into NaN.
  const Tensor shift = finish(call, "logsumexp_shift", highest, wide, [&](const Expr& v) {
    return select(heddle::isinf(v), make_const(wide, 0), v);
  });
  const Tensor sums = compute(
      impl::to_shape(plan.dims),
      [&](const std::vector<Axis>& i) {
        const Expr v = heddle::cast(wide, x.at(plan.source(i)));
        return heddle::sum(heddle::exp(v - shift(i)), plan.over);
      },
      "logsumexp_sum", call.op, where);
  return compute(
      impl::to_shape(plan.dims),
      [&](const std::vector<Axis>& i) {
        return heddle::cast(x.dtype(), heddle::log(sums(i)) + shift(i));
      },
      call.op, call.op, where);
}

Tensor norm_l1(const Tensor& x, const std::vector<int>& axes, bool keepdims, Where where) {
  const Call call{"norm_l1", where};
  check_floats(call, x);
  return plain(
      call, x, axes, keepdims,
      [](const Expr& v, const std::vector<Axis>& over) {
        return heddle::sum(heddle::abs(v), over);
      },
      true);
}

Tensor norm_l2(const Tensor& x, const std::vector<int>& axes, bool keepdims, Where where) {
  const Call call{"norm_l2", where};
  check_floats(call, x);
  const ReductionPlan plan(call, x, axes, keepdims);
  const Tensor squares = reduction(
      call, "norm_l2_squares", x, plan, impl::wide(x.dtype()),
      [](const Expr& v, const std::vector<Axis>& over) { return heddle::sum(v * v, over); });
  return finish(call, "norm_l2", squares, x.dtype(), [](const Expr& v) { return heddle::sqrt(v); });
}

Tensor argmax(const Tensor& x, int axis, bool keepdims, Where where) {
  return arg_reduction({"argmax", where}, x, axis, keepdims, true);
}

Tensor argmin(const Tensor& x, int axis, bool keepdims, Where where) {
  return arg_reduction({"argmin", where}, x, axis, keepdims, false);
}

}  // namespace heddle::ops
