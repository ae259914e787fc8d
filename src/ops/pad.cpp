#include "ops/pad.h"

#include <algorithm>
#include <utility>

#include "heddle/ops/transform.h"

namespace heddle::ops {
namespace impl {

Tensor pad_constant(const Call& call, const Tensor& x, const Dims& before, const Dims& after,
                    const Expr& value) {
  const auto is_zero = [](int64_t v) { return v == 0; };
  if (std::all_of(before.begin(), before.end(), is_zero) &&
      std::all_of(after.begin(), after.end(), is_zero))
    return x;
  Dims dims = x.extents();
  for (size_t d = 0; d < dims.size(); ++d) dims[d] += before[d] + after[d];
  return compute(
      to_shape(dims),
      [&](const std::vector<Axis>& i) {
        Expr inside;
        const auto require = [&](Expr condition) {
          inside = inside.defined() ? heddle::logical_and(inside, condition) : condition;
        };
        std::vector<Expr> indices;
        for (size_t d = 0; d < i.size(); ++d) {
          // A condition that always holds is left out, because it would complicate the body.
          if (before[d] > 0) require(i[d] >= before[d]);
          if (after[d] > 0) require(i[d] < x.shape()[d] + before[d]);
          indices.push_back(i[d] - before[d]);
        }
        const Expr read = x.at(std::move(indices));
        return inside.defined() ? select(inside, read, value) : read;
      },
      "pad", "pad", call.where);
}

}  // namespace impl

namespace {

/// The index of the element that is shown at position `i`. Positions before the first element are
/// negative.
Expr inner_index(const Expr& i, int64_t n, PadMode mode) {
  if (mode == PadMode::Edge) return max(min(i, Expr(n - 1)), Expr(0));
  return select(i < 0, -i, select(i >= n, 2 * (n - 1) - i, i));
}

}  // namespace

Tensor pad(const Tensor& x, const std::vector<int64_t>& before, const std::vector<int64_t>& after,
           PadMode mode, double value, Where where) {
  const impl::Call call{"pad", where};
  impl::check_rank(call, x, "x", 0);
  const impl::Dims from = x.extents();
  impl::Dims dims = from;
  if (before.size() != from.size() || after.size() != from.size())
    impl::fail(call,
               "'before' " + impl::text(before) + " and 'after' " + impl::text(after) +
                   " do not go with shape " + impl::text(from),
               "give one count a dimension");
  for (size_t d = 0; d < from.size(); ++d) {
    dims[d] += before[d] + after[d];
    // Removing more elements than there are would start beyond the end.
    if (dims[d] < 1 || before[d] <= -from[d] || after[d] <= -from[d])
      impl::fail(call, "nothing is left of dimension " + std::to_string(d) + " of " +
                           impl::text(from) + " padded by " + std::to_string(before[d]) + " and " +
                           std::to_string(after[d]));
    if (mode == PadMode::Reflect && std::max(before[d], after[d]) >= from[d])
      impl::fail(call,
                 "dimension " + std::to_string(d) + " of " + impl::text(from) +
                     " cannot be reflected by " + std::to_string(std::max(before[d], after[d])),
                 "reflection needs less padding than the extent");
  }
  if (mode == PadMode::Constant) {
    const Tensor padded = impl::pad_constant(call, x, before, after, make_const(x.dtype(), value));
    if (!padded.same_as(x)) return padded;
  }
  return compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> indices;
        for (size_t d = 0; d < i.size(); ++d) {
          const Expr index = i[d] - before[d];
          const bool outside = before[d] > 0 || after[d] > 0;
          indices.push_back(outside ? inner_index(index, from[d], mode) : index);
        }
        return x.at(std::move(indices));
      },
      "pad", "pad", where);
}

}  // namespace heddle::ops
