// Normalisations: mean and variance of blocks of x, then one element-wise stage. The variance is
// taken in a second pass around the mean, since E[x^2] - E[x]^2 cancels.
#include <algorithm>
#include <functional>
#include <utility>

#include "heddle/ops/nn.h"
#include "ir/sizes.h"
#include "ops/pad.h"
#include "ops/reduction_plan.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;
using Axes = std::vector<Axis>;
using Indices = std::vector<Expr>;

/// x is cut into blocks of equal size, and each block is normalised on its own.
struct Blocks {
  Dims dims;                                   ///< the dimensions of the array of blocks
  Axes over;                                   ///< the elements of a block
  int64_t count = 1;                           ///< the number of elements of a block
  std::function<Indices(const Axes&)> source;  ///< the indices into x of a block and `over`
  std::function<Indices(const Axes&)> target;  ///< the block that a position of x belongs to
};

Tensor block_mean(const Call& call, const Blocks& blocks, const char* what,
                  const std::function<Expr(const Axes&)>& value) {
  const Tensor sums = compute(
      impl::to_shape(blocks.dims),
      [&](const Axes& i) { return heddle::sum(value(i), blocks.over); },
      std::string(call.op) + "_" + what + "_sum", call.op, call.where);
  return compute(
      sums.shape(), [&](const Axes& i) { return sums(i) / blocks.count; },
      std::string(call.op) + "_" + what, call.op, call.where);
}

/// `centered` subtracts the mean, which rms_norm does not. `affine` is applied to the normalised
/// value.
Tensor normalize(const Call& call, const Tensor& x, const Blocks& blocks, double epsilon,
                 bool centered, const std::function<Expr(Expr, const Axes&)>& affine) {
  const DataType wide = impl::wide(x.dtype());
  Tensor mean;
  if (centered)
    mean = block_mean(call, blocks, "mean",
                      [&](const Axes& i) { return heddle::cast(wide, x.at(blocks.source(i))); });
  const Tensor variance = block_mean(call, blocks, "variance", [&](const Axes& i) {
    Expr v = heddle::cast(wide, x.at(blocks.source(i)));
    if (mean) v = v - mean(i);
    return v * v;
  });
  const Tensor inverse = compute(
      variance.shape(), [&](const Axes& i) { return heddle::rsqrt(variance(i) + epsilon); },
      std::string(call.op) + "_inverse", call.op, call.where);
  return compute(
      x.shape(),
      [&](const Axes& i) {
        const Indices block = blocks.target(i);
        Expr v = heddle::cast(wide, x(i));
        if (mean) v = v - mean.at(block);
        return heddle::cast(x.dtype(), affine(v * inverse.at(block), i));
      },
      call.op, call.op, call.where);
}

/// Checks an optional scale or shift of shape `dims`.
void check_parameter(const Call& call, const Tensor& t, const char* what, const Dims& dims) {
  if (!t) return;
  impl::check_float(call, t, what);
  if (t.extents() != dims)
    impl::fail(call, std::string("argument '") + what + "' has shape " + impl::text(t.extents()) +
                         ", and needs " + impl::text(dims));
}

Expr scaled(Expr v, const Tensor& scale, const Tensor& shift, const Indices& at) {
  if (scale) v = v * heddle::cast(v.dtype(), scale.at(at));
  if (shift) v = v + heddle::cast(v.dtype(), shift.at(at));
  return v;
}

/// Blocks of all dimensions from `axis` on, with parameters of their shape.
Tensor trailing_norm(const Call& call, const Tensor& x, const Tensor& scale, const Tensor& shift,
                     int axis, double epsilon, bool centered) {
  impl::check_rank(call, x, "x", 1);
  impl::check_float(call, x, "x");
  const int first = impl::normal_axis(call, axis, x.rank());
  std::vector<int> axes;
  Dims inner;
  for (int d = first; d < x.rank(); ++d) {
    axes.push_back(d);
    inner.push_back(x.extent(d));
  }
  check_parameter(call, scale, "scale", inner);
  check_parameter(call, shift, "shift", inner);
  const impl::ReductionPlan plan(call, x, axes, false);
  const Blocks blocks{plan.dims, plan.over, plan.count,
                      [&](const Axes& i) { return plan.source(i); },
                      [&](const Axes& i) { return plan.target(i); }};
  return normalize(call, x, blocks, epsilon, centered, [&](Expr v, const Axes& i) {
    return scaled(std::move(v), scale, shift, Indices(i.begin() + first, i.end()));
  });
}

/// Blocks of `groups` equal runs of channels of (N, C, ...), with parameters of shape (C).
Tensor channel_norm(const Call& call, const Tensor& x, int64_t groups, const Tensor& scale,
                    const Tensor& shift, double epsilon) {
  const int64_t channels = x.extent(1), run = channels / groups;
  check_parameter(call, scale, "scale", {channels});
  check_parameter(call, shift, "shift", {channels});
  Blocks blocks;
  blocks.dims = {x.extent(0), groups};
  // A run of one channel has no axis of its own, so that the index stays linear.
  if (run > 1) blocks.over.push_back(reduce_axis(run, "rc", call.where));
  for (int d = 2; d < x.rank(); ++d)
    blocks.over.push_back(reduce_axis(x.extent(d), "r" + std::to_string(d - 2), call.where));
  if (blocks.over.empty())
    impl::fail(call, "each block of " + impl::text(x.extents()) + " has only one element");
  for (const Axis& axis : blocks.over) blocks.count *= axis.extent();
  blocks.source = [&](const Axes& i) {
    Indices at{i[0], run > 1 ? i[1] * run + blocks.over[0] : Expr(i[1])};
    at.insert(at.end(), blocks.over.begin() + (run > 1 ? 1 : 0), blocks.over.end());
    return at;
  };
  blocks.target = [&](const Axes& i) { return Indices{i[0], floordiv(i[1], run)}; };
  return normalize(call, x, blocks, epsilon, true, [&](Expr v, const Axes& i) {
    return scaled(std::move(v), scale, shift, {i[1]});
  });
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, const Tensor& mean,
                  const Tensor& variance, double epsilon, int axis, Where where) {
  const Call call{"batch_norm", where};
  impl::check_rank(call, x, "x", 1);
  impl::check_float(call, x, "x");
  const size_t channel = static_cast<size_t>(impl::normal_axis(call, axis, x.rank()));
  const Dims dims{x.extent(axis)};
  impl::check_rank(call, mean, "mean", 1, 1);
  impl::check_rank(call, variance, "variance", 1, 1);
  check_parameter(call, scale, "scale", dims);
  check_parameter(call, shift, "shift", dims);
  check_parameter(call, mean, "mean", dims);
  check_parameter(call, variance, "variance", dims);
  const DataType wide = impl::wide(x.dtype());
  const Tensor factor = compute(
      impl::to_shape(dims),
      [&](Axis c) {
        const Expr inverse = heddle::rsqrt(heddle::cast(wide, variance(c)) + epsilon);
        return scaled(inverse, scale, {}, {c});
      },
      "batch_norm_factor", call.op, where);
  const Tensor offset = compute(
      impl::to_shape(dims),
      [&](Axis c) {
        const Expr moved = -(heddle::cast(wide, mean(c)) * factor(c));
        return scaled(moved, {}, shift, {c});
      },
      "batch_norm_offset", call.op, where);
  return compute(
      x.shape(),
      [&](const Axes& i) {
        const Expr v = heddle::cast(wide, x(i));
        return heddle::cast(x.dtype(), v * factor(i[channel]) + offset(i[channel]));
      },
      call.op, call.op, where);
}

Tensor layer_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, int axis,
                  double epsilon, Where where) {
  return trailing_norm({"layer_norm", where}, x, scale, shift, axis, epsilon, true);
}

Tensor rms_norm(const Tensor& x, const Tensor& scale, int axis, double epsilon, Where where) {
  return trailing_norm({"rms_norm", where}, x, scale, {}, axis, epsilon, false);
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& scale, const Tensor& shift,
                  double epsilon, Where where) {
  const Call call{"group_norm", where};
  impl::check_rank(call, x, "x", 2);
  impl::check_float(call, x, "x");
  if (groups < 1 || x.extent(1) % groups != 0)
    impl::fail(call, std::to_string(x.extent(1)) + " channels cannot be split into " +
                         std::to_string(groups) + " groups");
  return channel_norm(call, x, groups, scale, shift, epsilon);
}

Tensor instance_norm(const Tensor& x, const Tensor& scale, const Tensor& shift, double epsilon,
                     Where where) {
  const Call call{"instance_norm", where};
  impl::check_rank(call, x, "x", 3);
  impl::check_float(call, x, "x");
  return channel_norm(call, x, x.extent(1), scale, shift, epsilon);
}

Tensor lrn(const Tensor& x, int64_t size, double alpha, double beta, double bias, Where where) {
  const Call call{"lrn", where};
  impl::check_rank(call, x, "x", 2);
  impl::check_float(call, x, "x");
  if (size < 1) impl::fail(call, "the size is " + std::to_string(size), "at least 1");
  const DataType wide = impl::wide(x.dtype());
  // Beyond the channels there are zeros, however wide the window is.
  const int64_t most = largest_extent(x.shape()[1]) - 1;
  Dims before(static_cast<size_t>(x.rank()), 0), after = before;
  before[1] = std::min((size - 1) / 2, most);
  after[1] = std::min(size / 2, most);
  const Tensor padded = impl::pad_constant(call, x, before, after, make_const(x.dtype(), 0));
  const Axis r = reduce_axis(before[1] + after[1] + 1, "r", where);
  const Tensor squares = compute(
      x.shape(),
      [&](const Axes& i) {
        Indices at = impl::exprs(i);
        at[1] = i[1] + r;
        const Expr v = heddle::cast(wide, padded.at(std::move(at)));
        return heddle::sum(v * v, r);
      },
      "lrn_squares", call.op, where);
  return compute(
      x.shape(),
      [&](const Axes& i) {
        const Expr base = squares(i) * (alpha / static_cast<double>(size)) + bias;
        const Expr v = heddle::cast(wide, x(i));
        return heddle::cast(x.dtype(), v / heddle::pow(base, make_const(wide, beta)));
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
