// Gathers by indices from data, triangles of matrices, and blocks of pixels.
#include <utility>

#include "heddle/ops/transform.h"
#include "ir/data_index.h"
#include "ops/common.h"
#include "ops/known_indices.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::check_indices;
using impl::Dims;

Tensor triangle(const Call& call, const Tensor& x, int64_t k, bool lower) {
  impl::check_rank(call, x, "x", 2);
  return compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr offset = i[i.size() - 1] - i[i.size() - 2];
        const Expr zero = make_const(x.dtype(), 0);
        return select(lower ? offset <= k : offset >= k, x(i), zero);
      },
      call.op, call.op, call.where);
}

void check_blocks(const Call& call, const Tensor& x, int64_t block) {
  impl::check_rank(call, x, "x", 4, 4);
  constexpr int64_t kLargest = 1 << 15;  // its square is an extent
  if (block < 1 || block > kLargest)
    impl::fail(call, "the block size is " + std::to_string(block),
               "at least 1 and at most " + std::to_string(kLargest));
}

}  // namespace

Tensor gather(const Tensor& x, const Tensor& indices, int axis, Where where) {
  const Call call{"gather", where};
  impl::check_rank(call, x, "x", 1);
  check_indices(call, indices, 0);
  axis = impl::normal_axis(call, axis, x.rank());
  impl::check_known_indices(call, x, indices, {x.extent(axis)});
  const Dims from = x.extents(), inner = indices.extents();
  Dims dims(from.begin(), from.begin() + axis);
  dims.insert(dims.end(), inner.begin(), inner.end());
  dims.insert(dims.end(), from.begin() + axis + 1, from.end());
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        const auto middle = i.begin() + axis, after = middle + indices.rank();
        std::vector<Expr> at(i.begin(), middle);
        at.push_back(clamped_index(indices.at({middle, after}), x.extent(axis)));
        at.insert(at.end(), after, i.end());
        return x.at(std::move(at));
      },
      call.op, call.op, where);
}

Tensor take(const Tensor& x, const Tensor& indices, Where where) {
  const Call call{"take", where};
  impl::check_rank(call, x, "x", 0);
  check_indices(call, indices, 0);
  const Dims from = x.extents();
  impl::check_known_indices(call, x, indices, {impl::product(from)});
  return compute(
      indices.shape(),
      [&](const std::vector<Axis>& i) {
        const int64_t elements = impl::product(from);
        const Expr flat = clamped_index(indices(i), elements);
        std::vector<Expr> at;
        int64_t stride = elements;
        for (size_t d = 0; d < from.size(); ++d) {
          stride /= from[d];
          const Expr index = floordiv(flat, stride);
          at.push_back(d == 0 ? index : floormod(index, from[d]));
        }
        return x.at(std::move(at));
      },
      call.op, call.op, where);
}

Tensor gather_elements(const Tensor& x, const Tensor& indices, int axis, Where where) {
  const Call call{"gather_elements", where};
  impl::check_rank(call, x, "x", 1);
  check_indices(call, indices, 0);
  axis = impl::normal_axis(call, axis, x.rank());
  bool fits = indices.rank() == x.rank();
  for (int d = 0; fits && d < x.rank(); ++d) fits = d == axis || indices.extent(d) <= x.extent(d);
  if (!fits)
    impl::fail(call, "'indices' " + impl::text(indices.extents()) + " does not fit x " +
                         impl::text(x.extents()) + " along axis " + std::to_string(axis));
  impl::check_known_indices(call, x, indices, {x.extent(axis)});
  return compute(
      indices.shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at = impl::exprs(i);
        at[static_cast<size_t>(axis)] = clamped_index(indices(i), x.extent(axis));
        return x.at(std::move(at));
      },
      call.op, call.op, where);
}

Tensor one_hot(const Tensor& indices, int64_t depth, int axis, double on, double off,
               DataType dtype, Where where) {
  const Call call{"one_hot", where};
  check_indices(call, indices, 0);
  if (depth < 1) impl::fail(call, "the depth is " + std::to_string(depth), "at least 1");
  axis = impl::normal_axis(call, axis, indices.rank() + 1);
  Dims dims = indices.extents();
  dims.insert(dims.begin() + axis, depth);
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at = impl::exprs(i);
        at.erase(at.begin() + axis);
        const Expr index = from_end(indices.at(std::move(at)), depth);
        return select(index == i[static_cast<size_t>(axis)], make_const(dtype, on),
                      make_const(dtype, off));
      },
      call.op, call.op, where);
}

Tensor tril(const Tensor& x, int64_t k, Where where) {
  return triangle({"tril", where}, x, k, true);
}

Tensor triu(const Tensor& x, int64_t k, Where where) {
  return triangle({"triu", where}, x, k, false);
}

Tensor space_to_depth(const Tensor& x, int64_t block, Where where) {
  const Call call{"space_to_depth", where};
  check_blocks(call, x, block);
  const int64_t c = x.extent(1), h = x.extent(2), w = x.extent(3);
  if (h % block != 0 || w % block != 0)
    impl::fail(call, "height " + std::to_string(h) + " and width " + std::to_string(w) +
                         " are not multiples of the block size " + std::to_string(block));
  return compute(
      {x.extent(0), c * block * block, h / block, w / block},
      [&](Axis n, Axis o, Axis y, Axis z) {
        const Expr place = floordiv(o, c);  // the position in the block, row by row
        return x(n, floormod(o, c), y * block + floordiv(place, block),
                 z * block + floormod(place, block));
      },
      call.op, call.op, where);
}

Tensor depth_to_space(const Tensor& x, int64_t block, bool column_major, Where where) {
  const Call call{"depth_to_space", where};
  check_blocks(call, x, block);
  const int64_t area = block * block;
  if (x.extent(1) % area != 0)
    impl::fail(call, std::to_string(x.extent(1)) + " channels are no multiple of the block area " +
                         std::to_string(area));
  const int64_t c = x.extent(1) / area;
  return compute(
      {x.extent(0), c, x.extent(2) * block, x.extent(3) * block},
      [&](Axis n, Axis o, Axis y, Axis z) {
        const Expr place = floormod(y, block) * block + floormod(z, block);
        const Expr channel = column_major ? o * area + place : place * c + o;
        return x(n, channel, floordiv(y, block), floordiv(z, block));
      },
      call.op, call.op, where);
}

Tensor pixel_shuffle(const Tensor& x, int64_t factor, Where where) {
  check_blocks({"pixel_shuffle", where}, x, factor);
  return depth_to_space(x, factor, true, where);
}

}  // namespace heddle::ops
