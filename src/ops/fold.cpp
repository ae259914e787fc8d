#include "heddle/ops/conv.h"
#include "heddle/ops/transform.h"
#include "ops/pad.h"
#include "ops/window.h"

namespace heddle::ops {

namespace {

/// Checks the extents of images and of windows in them, and fills in the attributes.
impl::Window cuts(const impl::Call& call, const std::vector<int64_t>& size,
                  const std::vector<int64_t>& kernel, const Conv& attributes) {
  if (size.empty() || kernel.size() != size.size())
    impl::fail(call, "the image " + impl::text(size) + " and 'kernel' " + impl::text(kernel) +
                         " do not have one extent for each dimension");
  for (const int64_t extent : size) {
    if (extent < 1) impl::fail(call, "the image " + impl::text(size) + " has an extent below 1");
  }
  for (const int64_t extent : kernel) {
    if (extent < 1) impl::fail(call, "'kernel' " + impl::text(kernel) + " has an extent below 1");
  }
  return impl::window_of(call, static_cast<int>(size.size()), attributes.stride, attributes.padding,
                         attributes.dilation);
}

impl::Dims joined(std::initializer_list<impl::Dims> parts) {
  impl::Dims result;
  for (const impl::Dims& part : parts) result.insert(result.end(), part.begin(), part.end());
  return result;
}

}  // namespace

Tensor unfold(const Tensor& x, const std::vector<int64_t>& kernel, const Conv& attributes,
              Where where) {
  const impl::Call call{"unfold", where};
  impl::check_rank(call, x, "x", 3);
  const impl::Dims extents = x.extents();
  const impl::Dims size(extents.begin() + 2, extents.end());
  const impl::Window w = cuts(call, size, kernel, attributes);
  const impl::Dims counts = impl::window_counts(call, size, kernel, w);
  const size_t n = size.size();
  const Tensor padded = impl::pad_constant(call, x, joined({{0, 0}, w.before}),
                                           joined({{0, 0}, w.after}), make_const(x.dtype(), 0));
  const Tensor windows = compute(
      impl::to_shape(joined({{x.extent(0), x.extent(1)}, kernel, counts})),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at{i[0], i[1]};
        for (size_t d = 0; d < n; ++d)
          at.push_back(i[2 + n + d] * w.stride[d] + i[2 + d] * w.dilation[d]);
        return padded.at(std::move(at));
      },
      call.op, call.op, where);
  return reshape(windows, {x.extent(0), x.extent(1) * impl::product(kernel), impl::product(counts)},
                 where);
}

Tensor fold(const Tensor& x, const std::vector<int64_t>& size, const std::vector<int64_t>& kernel,
            const Conv& attributes, Where where) {
  const impl::Call call{"fold", where};
  impl::check_rank(call, x, "x", 3, 3);
  const impl::Window w = cuts(call, size, kernel, attributes);
  const impl::Dims counts = impl::window_counts(call, size, kernel, w);
  const int64_t window = impl::product(kernel);
  if (x.extent(1) % window != 0 || x.extent(2) != impl::product(counts))
    impl::fail(call,
               "x " + impl::text(x.extents()) + " does not fit " + impl::text(counts) +
                   " windows of " + impl::text(kernel),
               "it is (N, C * window, windows)");
  const impl::Dims images{x.extent(0), x.extent(1) / window};
  const Tensor windows = reshape(x, joined({images, kernel, counts}), where);
  const std::vector<Axis> r = impl::reduce_axes(call, kernel, "r");
  const DataType wide = impl::wide(x.dtype());
  return compute(
      impl::to_shape(joined({images, size})),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at{i[0], i[1]};
        at.insert(at.end(), r.begin(), r.end());
        Expr hit = Expr(true);
        for (size_t d = 0; d < r.size(); ++d) {
          const Expr from = i[d + 2] + w.before[d] - r[d] * w.dilation[d];
          const Expr place = floordiv(from, w.stride[d]);
          hit = heddle::logical_and(
              hit, heddle::logical_and(floormod(from, w.stride[d]) == 0,
                                       heddle::logical_and(place >= 0, place < counts[d])));
          at.push_back(place);
        }
        const Expr value = heddle::cast(wide, windows.at(std::move(at)));
        return heddle::cast(x.dtype(), heddle::sum(select(hit, value, make_const(wide, 0)), r));
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
