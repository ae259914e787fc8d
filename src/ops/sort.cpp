#include "heddle/ops/sort.h"

#include <cstdint>
#include <utility>

#include "heddle/ops/transform.h"
#include "ops/order.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

Sorted select_in_order(const Call& call, const Tensor& x, int64_t k, int axis, bool largest) {
  const auto d = static_cast<size_t>(axis);
  const int64_t n = x.extent(axis);
  // The rank of this element: the number of larger elements and of equal elements that come first.
  // Machines count faster with 32 bits.
  const DataType count = n <= INT32_MAX ? i32 : i64;
  const Axis other = reduce_axis(n, "j", call.where);
  const Tensor rank = compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at = impl::exprs(i);
        at[d] = other;
        const Expr comes_first = impl::is_before(x.at(std::move(at)), x(i), other < i[d], largest);
        return heddle::sum(select(comes_first, make_const(count, 1), make_const(count, 0)), other);
      },
      std::string(call.op) + "_rank", call.op, call.where);
  Dims dims = x.extents();
  dims[d] = k;
  const Axis from = reduce_axis(n, "j", call.where);
  const Tensor positions = compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at = impl::exprs(i);
        at[d] = from;
        return heddle::sum(select(rank.at(std::move(at)) == cast(count, i[d]), Expr(from), Expr(0)),
                           from);
      },
      std::string(call.op) + "_positions", call.op, call.where);
  const Tensor values = compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at = impl::exprs(i);
        at[d] = max(min(positions(i), Expr(n - 1)), Expr(0));
        return x.at(std::move(at));
      },
      call.op, call.op, call.where);
  return {values, positions};
}

/// The axis last, and all others one.
Tensor as_rows(const Call& call, const Tensor& x, int axis) {
  if (x.rank() == 2 && axis == 1) return x;
  std::vector<int> last;
  for (int d = 0; d < x.rank(); ++d)
    if (d != axis) last.push_back(d);
  last.push_back(axis);
  const Tensor moved = axis + 1 == x.rank() ? x : transpose(x, last, call.where);
  return reshape(moved, {-1, x.extent(axis)}, call.where);
}

/// Rows as they were, of another extent of the axis.
Tensor from_rows(const Call& call, const Tensor& rows, const Tensor& x, int axis) {
  if (x.rank() == 2 && axis == 1) return rows;
  Dims dims;
  std::vector<int> back;
  for (int d = 0; d < x.rank(); ++d) {
    if (d != axis) dims.push_back(x.extent(d));
    back.push_back(d < axis ? d : d == axis ? x.rank() - 1 : d - 1);
  }
  dims.push_back(rows.extent(1));
  const Tensor moved = reshape(rows, dims, call.where);
  return axis + 1 == x.rank() ? moved : transpose(moved, back, call.where);
}

Sorted in_order(const Call& call, const Tensor& x, int64_t k, int axis, bool largest) {
  // Up to here each element counts those before it: rows have few elements, and need few kernels.
  constexpr int64_t kMostCounted = 256;
  const int64_t n = x.extent(axis);
  if (n <= kMostCounted || n > INT32_MAX / 2 || x.dtype().is_bool())
    return select_in_order(call, x, k, axis, largest);
  const Tensor rows = as_rows(call, x, axis);
  const Sorted s = impl::is_few(k, n) ? impl::best_rows(call, rows, k, largest)
                                      : impl::sorted_rows(call, rows, k, largest);
  return {from_rows(call, s.values, x, axis), from_rows(call, s.positions, x, axis)};
}

}  // namespace

Sorted top_k(const Tensor& x, int64_t k, int axis, bool largest, Where where) {
  const Call call{"top_k", where};
  impl::check_rank(call, x, "x", 1);
  axis = impl::normal_axis(call, axis, x.rank());
  if (k < 1 || k > x.extent(axis))
    impl::fail(call, "k is " + std::to_string(k) + ", and dimension " + std::to_string(axis) +
                         " of " + impl::text(x.extents()) + " has extent " +
                         std::to_string(x.extent(axis)));
  return in_order(call, x, k, axis, largest);
}

Sorted sort(const Tensor& x, int axis, bool descending, Where where) {
  const Call call{"sort", where};
  impl::check_rank(call, x, "x", 1);
  axis = impl::normal_axis(call, axis, x.rank());
  return in_order(call, x, x.extent(axis), axis, descending);
}

}  // namespace heddle::ops
