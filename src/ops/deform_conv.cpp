// Convolutions whose window elements are moved by data.
#include "heddle/ops/elementwise.h"
#include "heddle/ops/linalg.h"
#include "heddle/ops/sample.h"
#include "heddle/ops/transform.h"
#include "ops/between.h"
#include "ops/window.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

void check_shapes(const Call& call, const Tensor& x, const Tensor& weight, const Tensor& offset,
                  const Tensor& mask, const DeformConv& a, const Dims& out) {
  const auto fits = [&](const Tensor& t, int64_t numbers) {
    const int64_t window = weight.extent(2) * weight.extent(3);
    return t.extents() == Dims{x.extent(0), a.offset_groups * window * numbers, out[0], out[1]};
  };
  const bool groups = a.groups >= 1 && a.offset_groups >= 1 && x.extent(1) % a.groups == 0 &&
                      x.extent(1) % a.offset_groups == 0 && weight.extent(0) % a.groups == 0 &&
                      weight.extent(1) == x.extent(1) / a.groups;
  if (!groups)
    impl::fail(call, "x " + impl::text(x.extents()) + " and 'weight' " +
                         impl::text(weight.extents()) + " do not fit " + std::to_string(a.groups) +
                         " groups and " + std::to_string(a.offset_groups) + " groups of offsets");
  if (!fits(offset, 2) || (mask && !fits(mask, 1)))
    impl::fail(call,
               "'offset' " + impl::text(offset.extents()) +
                   (mask ? " and 'mask' " + impl::text(mask.extents()) : "") +
                   " do not fit results of " + impl::text(out),
               "they have 2 numbers, and 1, for each element of the windows of each group");
}

struct Taps {
  const impl::Window& window;
  const Dims& kernel;
};

/// The two elements beside each position along dimension d, which the channels of a group share: indices, -1
/// outside of the image, or weights.
Tensor elements_beside(const Call& call, const Tensor& x, const Tensor& offset, const Taps& taps,
                       size_t d, bool weights) {
  const DataType wide = impl::wide(x.dtype());
  const impl::Window& w = taps.window;
  const int64_t extent = x.extent(static_cast<int>(d) + 2), count = taps.kernel[0] * taps.kernel[1];
  return compute(
      Shape{offset.extent(0), offset.extent(1) / 2, 2, offset.extent(2), offset.extent(3)},
      [&](const std::vector<Axis>& i) {
        const Expr tap = floormod(i[1], count);
        const Expr inner = d == 0 ? floordiv(tap, taps.kernel[1]) : floormod(tap, taps.kernel[1]);
        const Expr whole = i[d + 3] * w.stride[d] - w.before[d] + inner * w.dilation[d];
        const Expr moved = offset(i[0], i[1] * 2 + static_cast<int64_t>(d), i[3], i[4]);
        const Expr p =
            impl::near_extent(heddle::cast(wide, whole) + heddle::cast(wide, moved), extent);
        const Expr low = floor(p), upper = i[2] > 0;
        if (weights) return select(upper, p - low, make_const(wide, 1) - (p - low));
        const Expr index = heddle::cast(i64, low) + i[2];
        const Expr inside = heddle::logical_and(index >= 0, index < extent);
        return heddle::cast(i32, select(inside, index, Expr(-1)));
      },
      weights ? "deform_weights" : "deform_places", call.op, call.where);
}

}  // namespace

Tensor deform_conv2d(const Tensor& x, const Tensor& weight, const Tensor& offset,
                     const Tensor& mask, const Tensor& bias, const DeformConv& attributes,
                     Where where) {
  const Call call{"deform_conv2d", where};
  for (const auto& [t, name] : {std::pair{x, "x"}, {weight, "weight"}, {offset, "offset"}}) {
    impl::check_rank(call, t, name, 4, 4);
    impl::check_float(call, t, name);
  }
  const DeformConv& a = attributes;
  const Dims kernel{weight.extent(2), weight.extent(3)};
  const impl::Window w = impl::window_of(call, 2, a.stride, a.padding, a.dilation);
  const Dims out = impl::window_counts(call, {x.extent(2), x.extent(3)}, kernel, w);
  check_shapes(call, x, weight, offset, mask, a, out);
  const DataType wide = impl::wide(x.dtype());
  const int64_t window = kernel[0] * kernel[1], channels = x.extent(1);
  const int64_t together = channels / a.offset_groups;
  const auto beside = [&](size_t d, bool weights) {
    return elements_beside(call, x, offset, {w, kernel}, d, weights);
  };
  const Tensor places[] = {beside(0, false), beside(1, false)},
               shares[] = {beside(0, true), beside(1, true)};
  // The elements that each window sees, whose product with the weights is the convolution.
  const Tensor seen = compute(
      Shape{x.extent(0), channels, window, out[0], out[1]},
      [&](const std::vector<Axis>& i) {
        const Expr element = floordiv(i[1], together) * window + i[2];
        Expr value;
        for (const int64_t corner : {0, 1, 2, 3}) {
          const Expr steps[] = {Expr(corner / 2), Expr(corner % 2)};
          Expr at[2], share[2];
          for (const size_t d : {0, 1}) {
            at[d] = heddle::cast(i64, places[d](i[0], element, steps[d], i[3], i[4]));
            share[d] = shares[d](i[0], element, steps[d], i[3], i[4]);
          }
          const Expr read = heddle::cast(wide, x(i[0], i[1], impl::within(at[0], x.extent(2)),
                                                 impl::within(at[1], x.extent(3))));
          const Expr part = select(heddle::min(at[0], at[1]) >= 0, read * (share[0] * share[1]),
                                   make_const(wide, 0));
          value = corner == 0 ? part : value + part;
        }
        if (mask) value = value * heddle::cast(wide, mask(i[0], element, i[3], i[4]));
        return heddle::cast(x.dtype(), value);
      },
      "deform_windows", call.op, where);
  const int64_t depth = channels / a.groups * window, filters = weight.extent(0);
  const Tensor columns = reshape(seen, {x.extent(0), a.groups, depth, out[0] * out[1]}, where);
  const Tensor rows = reshape(weight, {a.groups, filters / a.groups, depth}, where);
  const Tensor y = reshape(matmul(rows, columns, false, false, {.output = x.dtype()}, where),
                           {x.extent(0), filters, out[0], out[1]}, where);
  if (!bias) return y;
  return add(y, reshape(bias, {filters, 1, 1}, where), where);
}

}  // namespace heddle::ops
