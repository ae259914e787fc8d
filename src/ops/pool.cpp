#include "heddle/ops/pool.h"

#include <utility>

#include "ops/pad.h"
#include "ops/window.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

Expr reduce_values(bool is_max, Expr value, const std::vector<Axis>& over) {
  return is_max ? reduce_max(std::move(value), over) : heddle::sum(std::move(value), over);
}

int spatial_rank(const Call& call, const Tensor& x, bool is_max) {
  impl::check_rank(call, x, "x", 3, 5);
  if (!is_max) impl::check_float(call, x, "x");
  return x.rank() - 2;
}

/// sums / count, where `count_of` gives the number of elements of the window at a position.
template <class F>
Tensor average(const Call& call, const Tensor& sums, DataType type, F count_of) {
  return compute(
      sums.shape(),
      [&](const std::vector<Axis>& i) {
        return heddle::cast(type, sums(i) / heddle::cast(sums.dtype(), count_of(i)));
      },
      std::string(call.op) + "_mean", call.op, call.where);
}

/// Refuses windows that contain only padding: they have neither a largest element nor elements to
/// count.
void check_padding(const Call& call, const Dims& kernel, const impl::Window& w) {
  for (size_t d = 0; d < kernel.size(); ++d) {
    const int64_t reach = w.dilation[d] * (kernel[d] - 1) + 1;
    if (w.before[d] >= reach || w.after[d] >= reach)
      impl::fail(call, "padding " + std::to_string(std::max(w.before[d], w.after[d])) +
                           " leaves windows of " + std::to_string(reach) + " without elements");
  }
}

Tensor pool(const Call& call, const Tensor& x, const Pool& p, bool is_max) {
  const int n = spatial_rank(call, x, is_max);
  const impl::Dimensions dims(p.layout, n);
  if (p.kernel.empty()) impl::fail(call, "'kernel' is not given");
  const Dims kernel = impl::per_dimension(call, "kernel", p.kernel, n, 1);
  for (int64_t extent : kernel)
    if (extent < 1) impl::fail(call, "'kernel' " + impl::text(kernel) + " has a value below 1");
  const Dims in = dims.spatial_dims(x);
  const impl::Window w =
      impl::window_of(call, n, p.stride.empty() ? kernel : p.stride, p.padding, p.dilation);
  check_padding(call, kernel, w);
  const Dims out = impl::window_counts(call, in, kernel, w, p.ceil_mode);
  // Rounding the extent up may need more padding than requested.
  Dims after = w.after;
  for (size_t d = 0; d < in.size(); ++d) {
    const int64_t reached = (out[d] - 1) * w.stride[d] + w.dilation[d] * (kernel[d] - 1) + 1;
    after[d] = std::max(after[d], reached - in[d] - w.before[d]);
  }
  const DataType sum_type = is_max ? x.dtype() : impl::wide(x.dtype());
  const Expr fill = is_max ? lowest_value(x.dtype()) : make_const(x.dtype(), 0);
  const Tensor padded = impl::pad_constant(call, x, dims.arrange<int64_t>(0, 0, w.before),
                                           dims.arrange<int64_t>(0, 0, after), fill);
  const std::vector<Axis> r = impl::reduce_axes(call, kernel, "r");
  const auto position = [&](const std::vector<Axis>& i, size_t d) {
    return i[static_cast<size_t>(dims.spatial(static_cast<int>(d)))] * w.stride[d];
  };
  const Tensor reduced = compute(
      impl::to_shape(dims.arrange(x.extent(0), x.extent(dims.channel), out)),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at;
        for (size_t d = 0; d < r.size(); ++d) at.push_back(position(i, d) + r[d] * w.dilation[d]);
        const Expr channel = i[static_cast<size_t>(dims.channel)];
        return reduce_values(
            is_max, heddle::cast(sum_type, padded.at(dims.arrange<Expr>(i[0], channel, at))), r);
      },
      call.op, call.op, call.where);
  if (is_max) return reduced;

  return average(call, reduced, x.dtype(), [&](const std::vector<Axis>& i) {
    Expr count = 1;
    for (size_t d = 0; d < r.size(); ++d) {
      // Elements from `low` on and before `high`, in positions of the padded input.
      const int64_t low = p.count_include_pad ? 0 : w.before[d];
      const int64_t high = w.before[d] + in[d] + (p.count_include_pad ? w.after[d] : 0);
      const int64_t last = (out[d] - 1) * w.stride[d] + w.dilation[d] * (kernel[d] - 1);
      const Expr start = position(i, d);
      if (low == 0 && last < high) {
        count = count * kernel[d];
        continue;
      }
      const int64_t step = w.dilation[d];
      const Expr skipped = max(floordiv(low - start + (step - 1), step), Expr(0));
      const Expr taken = min(floordiv(high - start + (step - 1), step), Expr(kernel[d]));
      count = count * (taken - skipped);
    }
    return count;
  });
}

Tensor global_pool(const Call& call, const Tensor& x, Layout layout, bool is_max) {
  const int n = spatial_rank(call, x, is_max);
  Pool p;
  p.layout = layout;
  p.kernel = impl::Dimensions(layout, n).spatial_dims(x);
  return pool(call, x, p, is_max);
}

Tensor adaptive_pool(const Call& call, const Tensor& x, const Dims& size, Layout layout,
                     bool is_max) {
  const int n = spatial_rank(call, x, is_max);
  const impl::Dimensions dims(layout, n);
  const Dims in = dims.spatial_dims(x), out = impl::per_dimension(call, "size", size, n, 1);
  Dims kernel;
  bool regular = true;
  for (size_t d = 0; d < in.size(); ++d) {
    if (out[d] < 1) impl::fail(call, "'size' " + impl::text(out) + " has a value below 1");
    regular = regular && in[d] % out[d] == 0;
    int64_t longest = 1;
    for (int64_t i = 0; i < out[d]; ++i)
      longest = std::max(longest, ((i + 1) * in[d] + out[d] - 1) / out[d] - i * in[d] / out[d]);
    kernel.push_back(longest);
  }
  if (regular) {
    Pool p;
    p.layout = layout;
    p.kernel = kernel;
    return pool(call, x, p, is_max);
  }
  const DataType sum_type = is_max ? x.dtype() : impl::wide(x.dtype());
  const std::vector<Axis> r = impl::reduce_axes(call, kernel, "r");
  const auto start = [&](const std::vector<Axis>& i, size_t d) {
    const Expr o = i[static_cast<size_t>(dims.spatial(static_cast<int>(d)))];
    return floordiv(o * in[d], out[d]);
  };
  const auto end = [&](const std::vector<Axis>& i, size_t d) {
    const Expr o = i[static_cast<size_t>(dims.spatial(static_cast<int>(d)))];
    return floordiv(o * in[d] + (in[d] + out[d] - 1), out[d]);
  };
  const Tensor reduced = compute(
      impl::to_shape(dims.arrange(x.extent(0), x.extent(dims.channel), out)),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at;
        Expr inside = true;
        for (size_t d = 0; d < r.size(); ++d) {
          at.push_back(start(i, d) + r[d]);
          inside = heddle::logical_and(inside, at.back() < end(i, d));
        }
        const Expr channel = i[static_cast<size_t>(dims.channel)];
        const Expr read = heddle::cast(sum_type, x.at(dims.arrange<Expr>(i[0], channel, at)));
        const Expr fill = is_max ? lowest_value(sum_type) : make_const(sum_type, 0);
        return reduce_values(is_max, select(inside, read, fill), r);
      },
      call.op, call.op, call.where);
  if (is_max) return reduced;
  return average(call, reduced, x.dtype(), [&](const std::vector<Axis>& i) {
    Expr count = 1;
    for (size_t d = 0; d < r.size(); ++d) count = count * (end(i, d) - start(i, d));
    return count;
  });
}

}  // namespace

Tensor max_pool(const Tensor& x, const Pool& attributes, Where where) {
  return pool({"max_pool", where}, x, attributes, true);
}

Tensor avg_pool(const Tensor& x, const Pool& attributes, Where where) {
  return pool({"avg_pool", where}, x, attributes, false);
}

Tensor global_max_pool(const Tensor& x, Layout layout, Where where) {
  return global_pool({"global_max_pool", where}, x, layout, true);
}

Tensor global_avg_pool(const Tensor& x, Layout layout, Where where) {
  return global_pool({"global_avg_pool", where}, x, layout, false);
}

Tensor adaptive_max_pool(const Tensor& x, const std::vector<int64_t>& size, Layout layout,
                         Where where) {
  return adaptive_pool({"adaptive_max_pool", where}, x, size, layout, true);
}

Tensor adaptive_avg_pool(const Tensor& x, const std::vector<int64_t>& size, Layout layout,
                         Where where) {
  return adaptive_pool({"adaptive_avg_pool", where}, x, size, layout, false);
}

}  // namespace heddle::ops
