// Determinants by elimination with the largest pivot of each column.
#include "heddle/ops/linalg.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/transform.h"
#include "ops/between.h"

namespace heddle::ops {

namespace {
// The largest matrix. Each column is a step with kernels of its own.
constexpr int64_t kLargest = 256;
}  // namespace

Tensor determinant(const Tensor& x, Where where) {
  const impl::Call call{"determinant", where};
  impl::check_rank(call, x, "x", 2);
  impl::check_float(call, x, "x");
  const int64_t n = x.extent(-1);
  if (x.extent(-2) != n || n < 1 || n > kLargest)
    impl::fail(call, "x " + impl::text(x.extents()) + " does not have square matrices",
               "of at most " + std::to_string(kLargest) + " rows");
  const DataType wide = impl::wide(x.dtype());
  const int64_t count = impl::product(x.extents()) / (n * n);
  Tensor m = reshape(impl::convert(call, x, wide), {count, n, n}, where);
  Tensor product;
  for (int64_t rows = n; rows > 0; --rows) {
    // The first row and the row of the pivot change places, which changes the sign.
    const Tensor sizes = compute(
        Shape{count, rows}, [&](Axis b, Axis i) { return heddle::abs(m(b, i, Expr(0))); },
        "determinant_sizes", call.op, where);
    const Tensor best = argmax(sizes, 1, false, where);
    const auto pivot = [&](const Expr& b, const Expr& j) {
      return m(b, impl::within(best(b), rows), j);
    };
    const Tensor before = product;
    product = compute(
        Shape{count},
        [&](Axis b) {
          const Expr p = pivot(b, Expr(0)), value = select(best(b) > 0, -p, p);
          return before ? before(b) * value : value;
        },
        "determinant_product", call.op, where);
    if (rows == 1) break;
    const Tensor from = m;
    m = compute(
        Shape{count, rows - 1, rows - 1},
        [&](Axis b, Axis i, Axis j) {
          const Expr source = select(i + 1 == best(b), Expr(0), i + 1);
          const Expr p = pivot(b, Expr(0)), none = make_const(wide, 0);
          const Expr factor = select(p == none, none, from(b, source, Expr(0)) / p);
          return from(b, source, j + 1) - factor * from(b, impl::within(best(b), rows), j + 1);
        },
        "determinant_rest", call.op, where);
  }
  impl::Dims dims = x.extents();
  dims.resize(dims.size() - 2);
  return impl::convert(call, reshape(product, dims, where), x.dtype());
}

}  // namespace heddle::ops
