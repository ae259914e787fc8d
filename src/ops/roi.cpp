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
    far = p - below;
  }
  Expr inside, low, far;
};

constexpr int64_t kOutside = -1, kUnused = -2;  // in place of the elements of a sample

/// The elements of each sample of a dimension, which all channels share.
struct Samples {
  Tensor places;  ///< (R, bins, samples): the lower one of i32, or one of those above
  Tensor far;     ///< likewise: the weight of the upper one
};

class Aligned {
 public:
  Aligned(const Call& call, const Tensor& x, const Tensor& rois, const Tensor& batch,
          const RoiAlign& a)
      : call_(call), x_(x), rois_(rois), batch_(batch), a_(a), wide_(impl::wide(x.dtype())) {
    rows_ = samples(1, a.height, x.extent(2));
    columns_ = samples(0, a.width, x.extent(3));
  }

  Bins rows(const Axis& roi) const { return bins(roi, 1, a_.height, x_.extent(2)); }
  Bins columns(const Axis& roi) const { return bins(roi, 0, a_.width, x_.extent(3)); }
  int64_t most_rows() const { return most(a_.height, x_.extent(2)); }
  int64_t most_columns() const { return most(a_.width, x_.extent(3)); }

  /// What sample (r, c) adds.
  Expr sample(const std::vector<Axis>& i, const Axis& r, const Axis& c) const {
    const Expr row = cast(i64, rows_.places(i[0], i[2], r)),
               column = cast(i64, columns_.places(i[0], i[3], c));
    const Expr below = rows_.far(i[0], i[2], r), right = columns_.far(i[0], i[3], c),
               one = make_const(wide_, 1);
    const Expr image = clamped_index(batch_(i[0]), x_.extent(0));
    const auto read = [&](int64_t down, int64_t across, const Expr& weight) {
      return cast(wide_, x_(image, i[1], impl::within(row + down, x_.extent(2)),
                            impl::within(column + across, x_.extent(3)))) *
             weight;
    };
    const Expr above = one - below, left = one - right;
    const Expr parts[] = {read(0, 0, above * left), read(0, 1, above * right),
                          read(1, 0, below * left), read(1, 1, below * right)};
    Expr all = parts[0];
    for (const size_t p : {1, 2, 3}) all = a_.largest ? heddle::max(all, parts[p]) : all + parts[p];
    const Expr least = heddle::min(row, column), zero = make_const(wide_, 0);
    const Expr taken = select(least >= 0, all, zero);
    return a_.largest && a_.samples == 0 ? select(least > kUnused, taken, lowest_value(wide_))
                                         : taken;
  }

 private:
  int64_t most(int64_t bins, int64_t extent) const {
    return a_.samples > 0 ? a_.samples : (extent + bins - 1) / bins + 1;
  }
  Bins bins(const Axis& roi, int64_t corner, int64_t count, int64_t extent) const {
    return bins_of(a_, cast(wide_, rois_(roi, Expr(corner))),
                   cast(wide_, rois_(roi, Expr(corner + 2))), count, extent);
  }
  Samples samples(int64_t corner, int64_t count, int64_t extent) const {
    const Shape shape{rois_.extent(0), count, most(count, extent)};
    const auto of = [&](Axis roi, Axis bin, Axis s) {
      return Neighbours(bins(roi, corner, count, extent).position(bin, s), extent);
    };
    return {compute(
                shape,
                [&](Axis roi, Axis bin, Axis s) {
                  const Neighbours n = of(roi, bin, s);
                  const Expr place = select(n.inside, n.low, Expr(kOutside));
                  if (a_.samples > 0) return cast(i32, place);
                  const Expr used = Expr(s) < bins(roi, corner, count, extent).count();
                  return cast(i32, select(used, place, Expr(kUnused)));
                },
                "roi_places", call_.op, call_.where),
            compute(
                shape, [&](Axis roi, Axis bin, Axis s) { return of(roi, bin, s).far; },
                "roi_weights", call_.op, call_.where)};
  }

  Call call_;
  Tensor x_, rois_, batch_;
  RoiAlign a_;
  DataType wide_;
  Samples rows_, columns_;
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
  const Aligned aligned(call, x, rois, batch, attributes);
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
        const Expr count = aligned.rows(i[0]).count() * aligned.columns(i[0]).count();
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
  // Where a bin begins and ends: at whole elements; bins overlap.
  const auto edges = [&](int64_t corner, int64_t bins, int64_t extent) {
    const auto edge = [&](const Axis& roi, int64_t column) {
      // Halves are rounded away from zero.
      const Expr half = make_const(wide, 0.5),
                 p = heddle::cast(wide, rois(roi, Expr(column))) * make_const(wide, scale);
      return select(p < make_const(wide, 0), ceil(p - half), floor(p + half));
    };
    return compute(
        Shape{rois.extent(0), bins, 2},
        [&](Axis roi, Axis bin, Axis end) {
          const Expr start = edge(roi, corner), one = make_const(wide, 1);
          const Expr size = heddle::max(edge(roi, corner + 2) - start + one, one);
          const Expr step = size / make_const(wide, static_cast<double>(bins));
          const Expr at = heddle::cast(wide, bin);
          const Expr place = select(Expr(end) < 1, floor(at * step), ceil((at + one) * step));
          return heddle::cast(i32, impl::near_extent(place + start, extent));
        },
        "roi_edges", call.op, where);
  };
  const auto in_bin = [](const Tensor& of, const Axis& roi, const Axis& bin, const Axis& at) {
    const Expr place = heddle::cast(i32, at);
    return heddle::logical_and(place >= of(roi, bin, Expr(0)), place < of(roi, bin, Expr(1)));
  };
  const Tensor rows = edges(2, height, x.extent(2)), columns = edges(1, width, x.extent(3));
  const Shape shape{rois.extent(0), x.extent(1), height, width};
  const Axis r = reduce_axis(x.extent(2), "r", where), c = reduce_axis(x.extent(3), "c", where);
  const Expr none = lowest_value(x.dtype());
  // A bin is a rectangle: the maximum of its rows in each column of the image, then of its columns.
  const Tensor of_rows = compute(
      Shape{rois.extent(0), x.extent(1), height, x.extent(3)},
      [&](const std::vector<Axis>& i) {
        const Expr given = heddle::cast(wide, rois(i[0], Expr(0)));
        const Expr image =
            impl::within(heddle::cast(i64, impl::near_extent(given, x.extent(0))), x.extent(0));
        return reduce_max(select(in_bin(rows, i[0], i[2], r), x(image, i[1], r, i[3]), none), {r});
      },
      "roi_rows", call.op, where);
  const Tensor largest = compute(
      shape,
      [&](const std::vector<Axis>& i) {
        return reduce_max(
            select(in_bin(columns, i[0], i[3], c), of_rows(i[0], i[1], i[2], c), none), {c});
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
