// Pooling of regions whose corners are data.
#include <algorithm>

#include "heddle/ops/sample.h"
#include "ir/data_index.h"
#include "ops/between.h"

namespace heddle::ops {
namespace {

using impl::Call;

void check_regions(const Call& call, const Tensor& x, const Tensor& rois, int64_t columns,
                   int64_t height, int64_t width) {
  impl::check_rank(call, x, "x", 4, 4);
  impl::check_float(call, x, "x");
  impl::check_rank(call, rois, "rois", 2, 2);
  impl::check_float(call, rois, "rois");
  if (rois.extent(1) != columns)
    impl::fail(call, "'rois' " + impl::text(rois.extents()) + " needs " + std::to_string(columns) +
                         " numbers for each region");
  if (height < 1 || width < 1)
    impl::fail(call,
               "a result of " + std::to_string(height) + " x " + std::to_string(width) + " bins");
}

/// One dimension of the bins of a region.
struct Bins {
  Expr start, bin;  ///< of the region, in elements
  Expr samples;     ///< of a bin; undefined: `most`
  int64_t most, extent;

  Expr count() const { return samples.defined() ? samples : Expr(most); }
  /// The position of sample `s` of bin `b`.
  Expr position(const Expr& b, const Expr& s) const {
    const DataType t = start.dtype();
    const Expr part = (cast(t, s) + make_const(t, 0.5)) / cast(t, heddle::max(count(), Expr(1)));
    return start + (cast(t, b) + part) * bin;
  }
};

Bins bins_of(const RoiAlign& a, const Expr& low, const Expr& high, int64_t bins, int64_t extent) {
  const DataType t = low.dtype();
  const auto number = [&](double v) { return make_const(t, v); };
  const double offset = a.half_pixel ? 0.5 : 0;
  const Expr start = low * number(a.scale) - number(offset);
  Expr size = high * number(a.scale) - number(offset) - start;
  if (!a.half_pixel) size = heddle::max(size, number(1));
  Bins result{start, size / number(static_cast<double>(bins)), {}, a.samples, extent};
  if (a.samples > 0) return result;
  result.most = (extent + bins - 1) / bins + 1;
  const Expr wanted = ceil(size / number(static_cast<double>(bins)));
  const Expr few = fmax(fmin(wanted, number(static_cast<double>(result.most))), number(0));
  result.samples = cast(i64, few);
  return result;
}

/// The neighbours of a position of which what lies up to one element outside is at the border.
struct Neighbours {
  Neighbours(const Expr& position, int64_t extent) {
    const DataType t = position.dtype();
    const auto number = [&](double v) { return make_const(t, v); };
    const auto n = static_cast<double>(extent);
    inside = heddle::logical_and(position >= number(-1), position <= number(n));
    const Expr p = fmax(fmin(position, number(n - 1)), number(0)), below = floor(p);
    low = impl::within(cast(i64, below), extent);
    high = impl::within(cast(i64, below) + 1, extent);
    far = p - below;
    near = number(1) - far;
  }
  Expr inside, low, high, near, far;
};

class Aligned {
 public:
  Aligned(const Tensor& x, const Tensor& rois, const Tensor& batch, const RoiAlign& a)
      : x_(x), rois_(rois), batch_(batch), a_(a), wide_(impl::wide(x.dtype())) {}

  Bins rows(const std::vector<Axis>& i) const { return bins(i, 1, a_.height, x_.extent(2)); }
  Bins columns(const std::vector<Axis>& i) const { return bins(i, 0, a_.width, x_.extent(3)); }
  int64_t most_rows() const { return most(a_.height, x_.extent(2)); }
  int64_t most_columns() const { return most(a_.width, x_.extent(3)); }

  /// What sample (r, c) adds.
  Expr sample(const std::vector<Axis>& i, const Axis& r, const Axis& c) const {
    const Bins y = rows(i), x = columns(i);
    const Neighbours v(y.position(i[2], r), y.extent), h(x.position(i[3], c), x.extent);
    const Expr image = clamped_index(batch_(i[0]), x_.extent(0));
    const auto read = [&](const Expr& row, const Expr& column, const Expr& weight) {
      return cast(wide_, x_(image, i[1], row, column)) * weight;
    };
    const Expr parts[] = {read(v.low, h.low, v.near * h.near), read(v.low, h.high, v.near * h.far),
                          read(v.high, h.low, v.far * h.near), read(v.high, h.high, v.far * h.far)};
    Expr all = parts[0];
    for (const size_t p : {1, 2, 3}) all = a_.largest ? heddle::max(all, parts[p]) : all + parts[p];
    Expr taken = all;
    taken = select(heddle::logical_and(v.inside, h.inside), taken, make_const(wide_, 0));
    if (a_.samples > 0) return taken;
    return select(heddle::logical_and(Expr(r) < y.count(), Expr(c) < x.count()), taken,
                  a_.largest ? lowest_value(wide_) : make_const(wide_, 0));
  }

 private:
  int64_t most(int64_t bins, int64_t extent) const {
    return a_.samples > 0 ? a_.samples : (extent + bins - 1) / bins + 1;
  }
  Bins bins(const std::vector<Axis>& i, int64_t corner, int64_t count, int64_t extent) const {
    return bins_of(a_, cast(wide_, rois_(i[0], Expr(corner))),
                   cast(wide_, rois_(i[0], Expr(corner + 2))), count, extent);
  }

  Tensor x_, rois_, batch_;
  RoiAlign a_;
  DataType wide_;
};

}  // namespace

Tensor roi_align(const Tensor& x, const Tensor& rois, const Tensor& batch, RoiAlign attributes,
                 Where where) {
  const Call call{"roi_align", where};
  check_regions(call, x, rois, 4, attributes.height, attributes.width);
  impl::check_rank(call, batch, "batch", 1, 1);
  if (!batch.dtype().is_integral() || batch.extent(0) != rois.extent(0))
    impl::fail(call, "argument 'batch' is " + impl::describe(batch) +
                         ", and needs one integer for each region");
  if (attributes.samples < 0 || attributes.samples > 1024)
    impl::fail(call, "'samples' is " + std::to_string(attributes.samples), "it is in [0, 1024]");
  const Aligned aligned(x, rois, batch, attributes);
  const DataType wide = impl::wide(x.dtype());
  const Shape shape{rois.extent(0), x.extent(1), attributes.height, attributes.width};
  const Axis r = reduce_axis(aligned.most_rows(), "r", where);
  const Axis c = reduce_axis(aligned.most_columns(), "c", where);
  const Tensor all = compute(
      shape,
      [&](const std::vector<Axis>& i) {
        const Expr value = aligned.sample(i, r, c);
        return attributes.largest ? reduce_max(value, {r, c}) : heddle::sum(value, {r, c});
      },
      "roi_samples", call.op, where);
  return compute(
      shape,
      [&](const std::vector<Axis>& i) {
        const Expr count = aligned.rows(i).count() * aligned.columns(i).count();
        const Expr value = attributes.largest ? select(count > 0, all(i), make_const(wide, 0))
                                              : all(i) / heddle::cast(wide, heddle::max(count, 1));
        return heddle::cast(x.dtype(), value);
      },
      call.op, call.op, where);
}

Tensor roi_max_pool(const Tensor& x, const Tensor& rois, int64_t height, int64_t width,
                    double scale, Where where) {
  const Call call{"roi_max_pool", where};
  check_regions(call, x, rois, 5, height, width);
  const DataType wide = impl::wide(rois.dtype());
  // Whether an element is in a bin: bins begin and end at whole elements, and overlap.
  const auto in_bin = [&](const std::vector<Axis>& i, int64_t corner, const Axis& bin, int64_t bins,
                          const Axis& at) {
    const auto edge = [&](int64_t column) {
      // Halves are rounded away from zero.
      const Expr half = make_const(wide, 0.5),
                 p = heddle::cast(wide, rois(i[0], Expr(column))) * make_const(wide, scale);
      return select(p < make_const(wide, 0), ceil(p - half), floor(p + half));
    };
    const Expr start = edge(corner), one = make_const(wide, 1);
    const Expr size = heddle::max(edge(corner + 2) - start + one, one);
    const Expr step = size / make_const(wide, static_cast<double>(bins));
    const Expr from = floor(heddle::cast(wide, bin) * step) + start;
    const Expr to = ceil((heddle::cast(wide, bin) + one) * step) + start;
    const Expr place = heddle::cast(wide, at);
    return heddle::logical_and(place >= from, place < to);
  };
  const Shape shape{rois.extent(0), x.extent(1), height, width};
  const Axis r = reduce_axis(x.extent(2), "r", where), c = reduce_axis(x.extent(3), "c", where);
  const Expr none = lowest_value(x.dtype());
  // A bin is a rectangle: the maximum of its columns in each row of the image, then of its rows.
  const Tensor of_columns = compute(
      Shape{rois.extent(0), x.extent(1), x.extent(2), width},
      [&](const std::vector<Axis>& i) {
        const Expr given = heddle::cast(wide, rois(i[0], Expr(0)));
        const Expr image =
            impl::within(heddle::cast(i64, impl::near_extent(given, x.extent(0))), x.extent(0));
        return reduce_max(select(in_bin(i, 1, i[3], width, c), x(image, i[1], i[2], c), none), {c});
      },
      "roi_columns", call.op, where);
  const Tensor largest = compute(
      shape,
      [&](const std::vector<Axis>& i) {
        return reduce_max(
            select(in_bin(i, 2, i[2], height, r), of_columns(i[0], i[1], r, i[3]), none), {r});
      },
      "roi_largest", call.op, where);
  return compute(
      shape,
      [&](const std::vector<Axis>& i) {
        return select(largest(i) > none, largest(i), make_const(x.dtype(), 0));
      },
      call.op, call.op, where);
}

}  // namespace heddle::ops
