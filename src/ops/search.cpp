#include "heddle/ops/search.h"

#include "ops/between.h"
#include "ops/order.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;

}  // namespace

Tensor searchsorted(const Tensor& sorted, const Tensor& values, bool right, Where where) {
  const Call call{"searchsorted", where};
  impl::check_rank(call, sorted, "sorted", 1);
  impl::check_rank(call, values, "values", 0);
  impl::check_same_type(call, sorted, values);
  const bool shared = sorted.rank() == 1;
  Dims rows = sorted.extents(), rows_of_values = values.extents();
  if (!shared) {
    if (values.rank() > 0) rows.back() = rows_of_values.back();
    if (rows != rows_of_values)
      impl::fail(call, "'sorted' " + impl::text(sorted.extents()) + " and 'values' " +
                           impl::text(rows_of_values) + " have different rows");
  }
  const int64_t n = sorted.extent(-1);
  if (n < 1) impl::fail(call, "'sorted' has no elements");
  // All elements before `place` are less; each step looks half as far ahead as the one before it.
  int64_t step = 1;
  while (step <= n / 2) step *= 2;
  Tensor place;
  for (; step >= 1; step /= 2) {
    const Tensor before = place;
    place = compute(
        values.shape(),
        [&](const std::vector<Axis>& i) {
          const Expr from = before ? before(i) : make_int(i64, 0);
          std::vector<Expr> at = impl::exprs(i);
          if (shared) at.assign(1, Expr(0));
          at.back() = impl::within(from + (step - 1), n);
          const Expr theirs = sorted.at(at), mine = values(i);
          const Expr less =
              impl::is_before(theirs, mine, make_const(boolean, right ? 1 : 0), false);
          return select(heddle::logical_and(from + step <= n, less), from + step, from);
        },
        call.op, call.op, where);
  }
  return place;
}

}  // namespace heddle::ops
