// Operators that change the shape only. The index expressions stay linear wherever they can.
#include <numeric>
#include <utility>

#include "heddle/ops/transform.h"
#include "ops/common.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

/// The indices into x for an element of the row-major array of shape `to`, which has as many
/// elements. Both shapes are cut into the shortest runs of dimensions with equal products, and each
/// run is mapped on its own. Splitting a dimension then gives linear indices. Only merged
/// dimensions need division.
std::vector<Expr> reshaped_indices(const Dims& from, const Dims& to, const std::vector<Axis>& at) {
  std::vector<Expr> indices;
  size_t i = 0, o = 0;
  while (i < from.size() || o < to.size()) {
    if (i < from.size() && from[i] == 1) {
      indices.emplace_back(0);
      ++i;
      continue;
    }
    if (o < to.size() && to[o] == 1) {
      ++o;
      continue;
    }
    const size_t first = i;
    int64_t in = from[i++], out = to[o];
    Expr flat = at[o++];
    while (in != out) {
      if (in < out) {
        in *= from[i++];
      } else {
        flat = flat * to[o] + at[o];
        out *= to[o++];
      }
    }
    int64_t stride = in;
    for (size_t d = first; d < i; ++d) {
      stride /= from[d];
      Expr index = stride == 1 ? flat : floordiv(flat, stride);
      // The first dimension of the run needs no remainder, because nothing lies above it.
      indices.push_back(d == first ? index : floormod(index, from[d]));
    }
  }
  return indices;
}

Tensor with_shape(const Call& call, const Tensor& x, const Dims& to) {
  return compute(
      impl::to_shape(to),
      [&](const std::vector<Axis>& i) {
        if (x.size() > 0) return x.at(reshaped_indices(x.extents(), to, i));
        return x.at(std::vector<Expr>(static_cast<size_t>(x.rank()), Expr(0)));  // never read
      },
      call.op, call.op, call.where);
}

}  // namespace

Tensor reshape(const Tensor& x, std::vector<int64_t> shape, Where where) {
  const Call call{"reshape", where};
  impl::check_rank(call, x, "x", 0);
  const Dims from = x.extents(), asked = shape;
  const int64_t elements = impl::product(from);
  int64_t known = 1;
  int open = -1;
  for (size_t d = 0; d < shape.size(); ++d) {
    if (shape[d] == 0) {
      if (d >= from.size())
        impl::fail(call, "extent 0 at dimension " + std::to_string(d) +
                             " keeps an extent that x does not have");
      shape[d] = from[d];
    }
    if (shape[d] == -1) {
      if (open >= 0) impl::fail(call, "the shape " + impl::text(asked) + " has two extents of -1");
      open = static_cast<int>(d);
      continue;
    }
    if (shape[d] < 0) impl::fail(call, "the shape " + impl::text(asked) + " has a negative extent");
    known *= shape[d];
  }
  if (open >= 0 && known > 0 && elements % known == 0) {
    shape[static_cast<size_t>(open)] = elements / known;
    known = elements;
  }
  if (known != elements)
    impl::fail(call, "cannot reshape " + impl::text(from) + ", " + std::to_string(elements) +
                         " elements, to " + impl::text(asked));
  return with_shape(call, x, shape);
}

Tensor flatten(const Tensor& x, int axis, Where where) {
  const Call call{"flatten", where};
  impl::check_rank(call, x, "x", 0);
  const Dims from = x.extents();
  const int rank = x.rank();
  if (axis < -rank || axis > rank)
    impl::fail(call, "axis " + std::to_string(axis) + " of a tensor of shape " + impl::text(from));
  const auto middle = from.begin() + (axis < 0 ? axis + rank : axis);
  return with_shape(call, x,
                    {std::accumulate(from.begin(), middle, int64_t{1}, std::multiplies<>()),
                     std::accumulate(middle, from.end(), int64_t{1}, std::multiplies<>())});
}

Tensor squeeze(const Tensor& x, const std::vector<int>& axes, Where where) {
  const Call call{"squeeze", where};
  impl::check_rank(call, x, "x", 0);
  const Dims from = x.extents();
  std::vector<bool> drop(from.size());
  for (size_t d = 0; d < from.size(); ++d) drop[d] = axes.empty() && from[d] == 1;
  for (int d : impl::normal_axes(call, axes, x.rank())) {
    if (from[static_cast<size_t>(d)] != 1)
      impl::fail(call, "dimension " + std::to_string(d) + " of " + impl::text(from) +
                           " does not have extent 1");
    drop[static_cast<size_t>(d)] = true;
  }
  Dims to;
  for (size_t d = 0; d < from.size(); ++d)
    if (!drop[d]) to.push_back(from[d]);
  return with_shape(call, x, to);
}

Tensor expand_dims(const Tensor& x, const std::vector<int>& axes, Where where) {
  const Call call{"expand_dims", where};
  impl::check_rank(call, x, "x", 0);
  const int rank = x.rank() + static_cast<int>(axes.size());
  Dims to(static_cast<size_t>(rank), 0);
  for (int d : impl::normal_axes(call, axes, rank)) to[static_cast<size_t>(d)] = 1;
  size_t next = 0;
  const Dims from = x.extents();
  for (int64_t& extent : to)
    if (extent == 0) extent = from[next++];
  return with_shape(call, x, to);
}

Tensor broadcast_to(const Tensor& x, const std::vector<int64_t>& shape, Where where) {
  const Call call{"broadcast_to", where};
  impl::check_rank(call, x, "x", 0);
  const Dims from = x.extents();
  bool fits = from.size() <= shape.size();
  for (size_t d = 0; fits && d < from.size(); ++d)
    fits = from[d] == 1 || from[d] == shape[shape.size() - from.size() + d];
  if (!fits)
    impl::fail(call, impl::text(from) + " does not broadcast to " + impl::text(shape),
               "from the back, extents of x must be 1 or equal");
  return compute(
      impl::to_shape(shape), [&](const std::vector<Axis>& i) { return impl::read_broadcast(x, i); },
      call.op, call.op, where);
}

Tensor transpose(const Tensor& x, std::vector<int> perm, Where where) {
  const Call call{"transpose", where};
  impl::check_rank(call, x, "x", 0);
  const size_t rank = static_cast<size_t>(x.rank());
  if (perm.empty())
    for (size_t d = 0; d < rank; ++d) perm.push_back(static_cast<int>(rank - 1 - d));
  if (perm.size() != rank)
    impl::fail(call, "perm has " + std::to_string(perm.size()) + " entries for shape " +
                         impl::text(x.extents()));
  impl::normal_axes(call, perm, x.rank());  // throws where perm is not a permutation
  Dims to;
  for (int& p : perm) {
    p = impl::normal_axis(call, p, x.rank());
    to.push_back(x.extent(p));
  }
  return compute(
      impl::to_shape(to),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> indices(rank);
        for (size_t d = 0; d < rank; ++d) indices[static_cast<size_t>(perm[d])] = i[d];
        return x.at(std::move(indices));
      },
      call.op, call.op, where);
}

Tensor nchw_to_nhwc(const Tensor& x, Where where) {
  impl::check_rank({"nchw_to_nhwc", where}, x, "x", 4, 4);
  return transpose(x, {0, 2, 3, 1}, where);
}

Tensor nhwc_to_nchw(const Tensor& x, Where where) {
  impl::check_rank({"nhwc_to_nchw", where}, x, "x", 4, 4);
  return transpose(x, {0, 3, 1, 2}, where);
}

}  // namespace heddle::ops
