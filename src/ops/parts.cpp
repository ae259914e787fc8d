// Slices, concatenations and the like: each reads one element of one input, at shifted or scaled
// positions.
#include <algorithm>
#include <numeric>
#include <utility>

#include "heddle/ops/transform.h"
#include "ops/common.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

/// A result of shape `dims` that reads x with the index of dimension `axis` replaced by `f`.
template <class F>
Tensor with_index(const Call& call, const Tensor& x, const Dims& dims, int axis, F index) {
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> indices = impl::exprs(i);
        Expr& at = indices[static_cast<size_t>(axis)];
        at = index(at);
        return x.at(std::move(indices));
      },
      call.op, call.op, call.where);
}

/// One of the parts `first` to `last`, of which `starts` are the first indices. Few are tested one
/// after the other, many by halves: the depth of the result is the logarithm of their number.
template <class F>
Expr part_at(const Expr& index, const std::vector<int64_t>& starts, F part, size_t first,
             size_t last) {
  constexpr size_t kFew = 8;
  if (last - first >= kFew) {
    const size_t middle = first + (last - first + 1) / 2;
    return select(index < starts[middle], part_at(index, starts, part, first, middle - 1),
                  part_at(index, starts, part, middle, last));
  }
  Expr value = part(last);
  for (size_t t = last; t-- > first;) value = select(index < starts[t + 1], part(t), value);
  return value;
}

void check_counts(const Call& call, const char* what, size_t given, size_t wanted) {
  if (given != wanted)
    impl::fail(call, std::string("'") + what + "' has " + std::to_string(given) +
                         (given == 1 ? " value" : " values") + ", and needs " +
                         std::to_string(wanted));
}

/// How `slice` walks one dimension.
struct Walk {
  int64_t start = 0, step = 1, extent = 0;
};

Walk walk_of(int64_t n, int64_t start, int64_t end, int64_t step) {
  // Clamped one beyond the first and last element that the direction can visit.
  const int64_t low = step > 0 ? 0 : -1, high = step > 0 ? n : n - 1;
  const auto clamped = [&](int64_t v) {
    v = std::max(v, -n - 1);  // keeps INT64_MIN from wrapping
    return std::clamp(v < 0 ? v + n : v, low, high);
  };
  const int64_t s = clamped(start), e = clamped(end);
  const int64_t extent = step > 0 ? (e - s + step - 1) / step : (s - e - step - 1) / -step;
  return {s, step, std::max<int64_t>(extent, 0)};
}

}  // namespace

Tensor slice(const Tensor& x, const std::vector<int64_t>& starts, const std::vector<int64_t>& ends,
             const std::vector<int>& axes, const std::vector<int64_t>& steps, Where where) {
  const Call call{"slice", where};
  impl::check_rank(call, x, "x", 1);
  check_counts(call, "ends", ends.size(), starts.size());
  if (!axes.empty()) check_counts(call, "axes", axes.size(), starts.size());
  if (!steps.empty()) check_counts(call, "steps", steps.size(), starts.size());
  impl::normal_axes(call, axes, x.rank());
  std::vector<Walk> walks;
  for (int64_t extent : x.extents()) walks.push_back({0, 1, extent});
  for (size_t s = 0; s < starts.size(); ++s) {
    const int d = impl::normal_axis(call, axes.empty() ? static_cast<int>(s) : axes[s], x.rank());
    const int64_t step = steps.empty() ? 1 : steps[s];
    if (step == 0) impl::fail(call, "the step of dimension " + std::to_string(d) + " is 0");
    walks[static_cast<size_t>(d)] = walk_of(x.extent(d), starts[s], ends[s], step);
    if (walks[static_cast<size_t>(d)].extent == 0)
      impl::fail(call, "dimension " + std::to_string(d) + " of " + impl::text(x.extents()) +
                           " from " + std::to_string(starts[s]) + " to " + std::to_string(ends[s]) +
                           " by " + std::to_string(step) + " is empty");
  }
  Dims dims;
  for (const Walk& walk : walks) dims.push_back(walk.extent);
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> indices;
        for (size_t d = 0; d < i.size(); ++d)
          indices.push_back(i[d] * walks[d].step + walks[d].start);
        return x.at(std::move(indices));
      },
      call.op, call.op, where);
}

Tensor flip(const Tensor& x, const std::vector<int>& axes, Where where) {
  const Call call{"flip", where};
  impl::check_rank(call, x, "x", 1);
  const std::vector<int> flipped = impl::normal_axes(call, axes, x.rank());
  return compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> indices = impl::exprs(i);
        for (int d : flipped) {
          Expr& index = indices[static_cast<size_t>(d)];
          index = x.extent(d) - 1 - index;
        }
        return x.at(std::move(indices));
      },
      call.op, call.op, where);
}

Tensor roll(const Tensor& x, int64_t shift, int axis, Where where) {
  const Call call{"roll", where};
  impl::check_rank(call, x, "x", 1);
  axis = impl::normal_axis(call, axis, x.rank());
  const int64_t n = std::max<int64_t>(x.extent(axis), 1), back = ((-shift) % n + n) % n;
  return with_index(call, x, x.extents(), axis,
                    [&](const Expr& i) { return floormod(i + back, n); });
}

Tensor tile(const Tensor& x, const std::vector<int64_t>& repeats, Where where) {
  const Call call{"tile", where};
  impl::check_rank(call, x, "x", 0);
  check_counts(call, "repeats", repeats.size(), static_cast<size_t>(x.rank()));
  Dims dims = x.extents();
  for (size_t d = 0; d < dims.size(); ++d) dims[d] *= repeats[d];
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> indices = impl::exprs(i);
        for (size_t d = 0; d < i.size(); ++d)
          if (repeats[d] != 1) indices[d] = floormod(i[d], x.shape()[d]);
        return x.at(std::move(indices));
      },
      call.op, call.op, where);
}

Tensor repeat(const Tensor& x, int64_t times, int axis, Where where) {
  const Call call{"repeat", where};
  impl::check_rank(call, x, "x", 1);
  axis = impl::normal_axis(call, axis, x.rank());
  if (times < 1) impl::fail(call, "times is " + std::to_string(times), "it is at least 1");
  Dims dims = x.extents();
  dims[static_cast<size_t>(axis)] *= times;
  return with_index(call, x, dims, axis, [&](const Expr& i) { return floordiv(i, times); });
}

Tensor concat(const std::vector<Tensor>& tensors, int axis, Where where) {
  const Call call{"concat", where};
  if (tensors.empty()) impl::fail(call, "no tensors are given");
  for (const Tensor& t : tensors) impl::check_rank(call, t, "tensors", 1);
  const Tensor& first = tensors[0];
  axis = impl::normal_axis(call, axis, first.rank());
  Dims dims = first.extents();
  std::vector<int64_t> starts;
  int64_t total = 0;
  for (const Tensor& t : tensors) {
    impl::check_same_type(call, first, t);
    Dims own = t.extents();
    starts.push_back(total);
    if (own.size() == dims.size()) {
      total += own[static_cast<size_t>(axis)];
      own[static_cast<size_t>(axis)] = dims[static_cast<size_t>(axis)];
    }
    if (own != dims)
      impl::fail(call, "the shapes " + impl::text(first.extents()) + " and " +
                           impl::text(t.extents()) + " differ elsewhere than in dimension " +
                           std::to_string(axis));
  }
  dims[static_cast<size_t>(axis)] = total;
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        const auto part = [&](size_t t) {
          std::vector<Expr> indices = impl::exprs(i);
          indices[static_cast<size_t>(axis)] = i[static_cast<size_t>(axis)] - starts[t];
          return tensors[t].at(std::move(indices));
        };
        return part_at(i[static_cast<size_t>(axis)], starts, part, 0, tensors.size() - 1);
      },
      call.op, call.op, where);
}

Tensor stack(const std::vector<Tensor>& tensors, int axis, Where where) {
  const Call call{"stack", where};
  if (tensors.empty()) impl::fail(call, "no tensors are given");
  for (const Tensor& t : tensors) {
    impl::check_rank(call, t, "tensors", 0);
    impl::check_same_type(call, tensors[0], t);
    if (t.extents() != tensors[0].extents())
      impl::fail(call, "the shapes " + impl::text(tensors[0].extents()) + " and " +
                           impl::text(t.extents()) + " differ");
  }
  axis = impl::normal_axis(call, axis, tensors[0].rank() + 1);
  Dims dims = tensors[0].extents();
  dims.insert(dims.begin() + axis, static_cast<int64_t>(tensors.size()));
  std::vector<int64_t> starts(tensors.size());
  std::iota(starts.begin(), starts.end(), int64_t{0});
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> indices = impl::exprs(i);
        indices.erase(indices.begin() + axis);
        return part_at(
            i[static_cast<size_t>(axis)], starts, [&](size_t t) { return tensors[t].at(indices); },
            0, tensors.size() - 1);
      },
      call.op, call.op, where);
}

std::vector<Tensor> split(const Tensor& x, const std::vector<int64_t>& extents, int axis,
                          Where where) {
  const Call call{"split", where};
  impl::check_rank(call, x, "x", 1);
  axis = impl::normal_axis(call, axis, x.rank());
  int64_t total = 0;
  for (int64_t extent : extents) {
    if (extent < 1) impl::fail(call, "a part of extent " + std::to_string(extent));
    total += extent;
  }
  if (total != x.extent(axis))
    impl::fail(call, "the parts " + impl::text(extents) + " sum up to " + std::to_string(total) +
                         ", but dimension " + std::to_string(axis) + " of " +
                         impl::text(x.extents()) + " has extent " + std::to_string(x.extent(axis)));
  std::vector<Tensor> parts;
  Dims dims = x.extents();
  int64_t start = 0;
  for (int64_t extent : extents) {
    dims[static_cast<size_t>(axis)] = extent;
    parts.push_back(with_index(call, x, dims, axis, [&](const Expr& i) { return i + start; }));
    start += extent;
  }
  return parts;
}

std::vector<Tensor> split(const Tensor& x, int parts, int axis, Where where) {
  const Call call{"split", where};
  impl::check_rank(call, x, "x", 1);
  const int64_t extent = x.extent(impl::normal_axis(call, axis, x.rank()));
  if (parts < 1 || extent % parts != 0)
    impl::fail(call,
               "extent " + std::to_string(extent) + " cannot be split into " +
                   std::to_string(parts) + " equal parts",
               "give the extents of the parts instead");
  return split(x, std::vector<int64_t>(static_cast<size_t>(parts), extent / parts), axis, where);
}

}  // namespace heddle::ops
