#include "heddle/ops/sparse.h"

#include "heddle/ops/elementwise.h"
#include "heddle/ops/search.h"
#include "heddle/ops/sort.h"
#include "heddle/ops/transform.h"
#include "ops/between.h"
#include "ops/known_indices.h"

namespace heddle::ops {
namespace {

using impl::Call;

/// A sparse matrix as rows of blocks.
class Rows {
 public:
  Rows(const Call& call, const SparseRows& a) : a_(a), blocks_(a.data.rank() == 3) {
    impl::check_indices(call, a.columns, 1);
    impl::check_indices(call, a.begins, 1);
    const int64_t n = a.data.extent(0);
    if ((a.data.rank() != 1 && !blocks_) || a.columns.rank() != 1 || a.begins.rank() != 1 ||
        a.columns.extent(0) != n || a.begins.extent(0) < 2 || n < 1)
      impl::fail(call,
                 "'data' " + impl::text(a.data.extents()) + ", 'columns' " +
                     impl::text(a.columns.extents()) + " and 'begins' " +
                     impl::text(a.begins.extents()) + " are no sparse matrix",
                 "they are (n) or (n, r, c), (n) and (rows + 1)");
    if (a.longest < 1) impl::fail(call, "'longest' is " + std::to_string(a.longest), "at least 1");
  }

  int64_t rows() const { return (a_.begins.extent(0) - 1) * height(); }
  int64_t height() const { return blocks_ ? a_.data.extent(1) : 1; }
  int64_t width() const { return blocks_ ? a_.data.extent(2) : 1; }
  std::vector<Axis> axes(const Call& call) const {
    std::vector<Axis> all{reduce_axis(a_.longest, "e", call.where)};
    if (blocks_) all.push_back(reduce_axis(width(), "c", call.where));
    return all;
  }
  /// What the elements of `row` add, of which `read(column)` is the other factor.
  template <class F>
  Expr product(const Expr& row, const std::vector<Axis>& over, int64_t depth, F read) const {
    const Expr block = height() == 1 ? row : floordiv(row, height());
    const Expr element = cast(i64, a_.begins(block)) + over[0];
    const Expr at = impl::within(element, a_.data.extent(0));
    const Expr data = blocks_ ? a_.data(at, floormod(row, height()), over[1]) : a_.data(at);
    Expr column = cast(i64, a_.columns(at));
    if (blocks_) column = column * width() + over[1];
    const DataType wide = impl::wide(a_.data.dtype());
    const Expr value = cast(wide, data) * cast(wide, read(impl::within(column, depth)));
    return select(element < cast(i64, a_.begins(block + 1)), value, make_const(wide, 0));
  }

 private:
  const SparseRows& a_;
  bool blocks_;
};

template <class F>
Tensor product_of(const Call& call, const Shape& shape, DataType type, F body) {
  const Tensor sums = compute(shape, body, call.op, call.op, call.where);
  return impl::convert(call, sums, type);
}

}  // namespace

Tensor sparse_matmul(const SparseRows& a, const Tensor& x, Where where) {
  const Call call{"sparse_matmul", where};
  const Rows rows(call, a);
  impl::check_rank(call, x, "x", 2, 2);
  impl::check_same_type(call, a.data, x);
  const std::vector<Axis> over = rows.axes(call);
  return product_of(call, Shape{rows.rows(), x.extent(1)}, x.dtype(), [&](Axis i, Axis j) {
    return heddle::sum(
        rows.product(i, over, x.extent(0), [&](const Expr& column) { return x(column, j); }), over);
  });
}

Tensor sparse_dense(const Tensor& x, const SparseRows& weight, Where where) {
  const Call call{"sparse_dense", where};
  const Rows rows(call, weight);
  impl::check_rank(call, x, "x", 2, 2);
  impl::check_same_type(call, weight.data, x);
  // Rows of the transposed x are vectors, where elements of x at columns that are data would be read one by one.
  return transpose(sparse_matmul(weight, transpose(x, {}, where), where), {}, where);
}

Tensor rows_of(const SparseRows& a, Where where) {
  const Call call{"rows_of", where};
  const Rows check(call, a);
  const Tensor elements = compute(
      Shape{a.columns.extent(0)}, [&](Axis i) { return cast(a.begins.dtype(), Expr(i)); },
      "rows_of_elements", call.op, where);
  const Tensor begun = searchsorted(a.begins, elements, true, where);
  return sub(begun, Expr(1), where);
}

SparseRows sparse_transpose(const SparseRows& a, int64_t columns, int64_t longest, Where where) {
  const Call call{"sparse_transpose", where};
  const Rows check(call, a);
  if (a.data.rank() != 1) impl::fail(call, "'data' has blocks", "transpose a matrix of elements");
  const Sorted order = sort(a.columns, 0, false, where);
  const Tensor numbers = compute(
      Shape{columns + 1}, [&](Axis i) { return cast(a.columns.dtype(), Expr(i)); },
      "sparse_columns", call.op, where);
  return {take(a.data, order.positions, where), take(rows_of(a, where), order.positions, where),
          searchsorted(order.values, numbers, false, where), longest};
}

}  // namespace heddle::ops
