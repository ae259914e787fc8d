#include "heddle/ops/linalg.h"

#include <utility>

#include "ops/contraction.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

std::string product_text(const Tensor& a, const Tensor& b, bool ta, bool tb) {
  return impl::text(a.extents()) + (ta ? " transposed" : "") + " x " + impl::text(b.extents()) +
         (tb ? " transposed" : "");
}

/// Pushes the indices of the batch dimensions of `t`, with broadcasting.
void push_batch(std::vector<Expr>& indices, const Tensor& t, int batch_rank,
                const std::vector<Axis>& at, size_t result_batch) {
  for (int d = 0; d < batch_rank; ++d) {
    const Axis& axis = at[result_batch - static_cast<size_t>(batch_rank - d)];
    indices.push_back(t.extent(d) == axis.extent() ? Expr(axis) : Expr(0));
  }
}

Dims batch_dims(const Call& call, const Tensor& a, const Tensor& b) {
  Dims result;
  for (const Tensor& t : {a, b}) {
    const int rank = std::max(t.rank() - 2, 0);
    const Dims all = t.extents();
    if (static_cast<size_t>(rank) > result.size())
      result.insert(result.begin(), static_cast<size_t>(rank) - result.size(), 1);
    for (int d = 0; d < rank; ++d) {
      int64_t& extent = result[result.size() - static_cast<size_t>(rank - d)];
      const int64_t own = all[static_cast<size_t>(d)];
      if (own != 1 && extent != 1 && own != extent)
        impl::fail(
            call,
            "the leading dimensions of " + product_text(a, b, false, false) + " do not broadcast",
            "from the back, extents must be equal or 1");
      if (own != 1) extent = own;
    }
  }
  return result;
}

Tensor product(const Call& call, const Tensor& a, const Tensor& b, bool ta, bool tb,
               const Tensor& bias, const Precision& precision) {
  impl::check_rank(call, a, "a", 1);
  impl::check_rank(call, b, "b", 1);
  const impl::ContractionTypes types = impl::contraction_types(call, a, b, precision);
  const bool row = a.rank() == 1, column = b.rank() == 1;
  const int64_t depth = row ? a.extent(0) : a.extent(ta ? -2 : -1);
  const int64_t depth_b = column ? b.extent(0) : b.extent(tb ? -1 : -2);
  if (depth != depth_b)
    impl::fail(call,
               "the inner extents of " + product_text(a, b, ta, tb) + " are " +
                   std::to_string(depth) + " and " + std::to_string(depth_b),
               "they must be equal; see transpose_a and transpose_b");
  const Dims batch = batch_dims(call, a, b);
  Dims dims = batch;
  if (!row) dims.push_back(a.extent(ta ? -1 : -2));
  if (!column) dims.push_back(b.extent(tb ? -2 : -1));

  const Axis k = reduce_axis(depth, "k", call.where);
  const auto body = [&](const std::vector<Axis>& i) {
    std::vector<Expr> at_a, at_b;
    push_batch(at_a, a, std::max(a.rank() - 2, 0), i, batch.size());
    push_batch(at_b, b, std::max(b.rank() - 2, 0), i, batch.size());
    size_t next = batch.size();
    if (!row) at_a.push_back(i[next++]);
    at_a.push_back(k);
    if (!row && ta) std::swap(at_a[at_a.size() - 2], at_a.back());
    at_b.push_back(k);
    if (!column) at_b.push_back(i[next]);
    if (!column && tb) std::swap(at_b[at_b.size() - 2], at_b.back());
    return sum_in(types.accumulate,
                  impl::product_in(types.accumulate, a.at(std::move(at_a)), b.at(std::move(at_b))),
                  {k});
  };
  const Tensor sums = compute(impl::to_shape(dims), body, call.op, call.op, call.where);
  return impl::finish_contraction(call, sums, bias, -1, types);
}

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
              Precision precision, Where where) {
  return product({"matmul", where}, a, b, transpose_a, transpose_b, {}, precision);
}

Tensor batch_matmul(const Tensor& a, const Tensor& b, bool transpose_a, bool transpose_b,
                    Precision precision, Where where) {
  const Call call{"batch_matmul", where};
  impl::check_rank(call, a, "a", 3, 3);
  impl::check_rank(call, b, "b", 3, 3);
  return product(call, a, b, transpose_a, transpose_b, {}, precision);
}

Tensor dense(const Tensor& x, const Tensor& weight, const Tensor& bias, Precision precision,
             Where where) {
  const Call call{"dense", where};
  impl::check_rank(call, x, "x", 1);
  impl::check_rank(call, weight, "weight", 2, 2);
  if (x.extent(-1) != weight.extent(1))
    impl::fail(call,
               "'x' " + impl::describe(x) + " has " + std::to_string(x.extent(-1)) +
                   " features but 'weight' " + impl::describe(weight) + " takes " +
                   std::to_string(weight.extent(1)),
               "the weight is (outputs, inputs)");
  return product(call, x, weight, false, true, bias, precision);
}

Tensor dot(const Tensor& a, const Tensor& b, Precision precision, Where where) {
  const Call call{"dot", where};
  impl::check_rank(call, a, "a", 1, 1);
  impl::check_rank(call, b, "b", 1, 1);
  return product(call, a, b, false, false, {}, precision);
}

Tensor matvec(const Tensor& a, const Tensor& x, Precision precision, Where where) {
  const Call call{"matvec", where};
  impl::check_rank(call, a, "a", 2, 2);
  impl::check_rank(call, x, "x", 1, 1);
  return product(call, a, x, false, false, {}, precision);
}

Tensor outer(const Tensor& a, const Tensor& b, Where where) {
  const Call call{"outer", where};
  impl::check_rank(call, a, "a", 1, 1);
  impl::check_rank(call, b, "b", 1, 1);
  impl::check_same_type(call, a, b);
  return compute(
      {a.extent(0), b.extent(0)}, [&](Axis i, Axis j) { return a(i) * b(j); }, "outer", "outer",
      where);
}

}  // namespace heddle::ops
