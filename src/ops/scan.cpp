// Running sums, products and other scans of associative reducers.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "heddle/ops/transform.h"
#include "ops/common.h"

namespace heddle::ops {
namespace {

using impl::Call;

/// The operation of a scan.
struct Combine {
  std::function<Expr(const Expr&, const Axis&)> reduce;
  std::function<Expr(const Expr&, const Expr&)> two;
  Expr identity;
};

struct Direction {
  bool exclusive = false, reverse = false;
};

/// kLong is the least length of an axis that is cut into blocks, kFewRows the number of rows below
/// which it is cut. A thread of a GPU scans a block: of 4,096 elements it took 200 us. (A core takes 4 % longer with
/// blocks of 256 elements than with those of 4,096.)
constexpr int64_t kLong = 1 << 14, kFewRows = 64, kShortestBlock = 128, kLongestBlock = 256,
                  kLongestReverse = 4096;

/// The length of the blocks of an axis of `n` elements, or `n` where the axis is not cut. Lengths
/// that divide `n` are preferred.
int64_t block_of(int64_t n, int64_t others, bool reverse) {
  if (n < kLong || others >= kFewRows) return n;
  for (int64_t b = kLongestBlock; b >= kShortestBlock; --b) {
    if (n % b == 0) return b;
  }
  if (!reverse) return kLongestBlock;
  // In a scan from the end, other blocks would not begin at multiples of their length.
  for (int64_t b = kLongestBlock + 1; b <= kLongestReverse; ++b) {
    if (n % b == 0) return b;
  }
  return n;
}

/// The scan of `x` along `axis`: see dag/patterns/scan.cpp for the form that is declared.
Tensor scanned(const Call& call, const Tensor& x, int axis, const Combine& combine, Direction way) {
  const auto d = static_cast<size_t>(axis);
  const int64_t n = x.extent(axis), others = impl::product(x.extents()) / n;
  const int64_t block = block_of(n, others, way.reverse);
  const auto place = [&](const Expr& i) { return way.reverse ? Expr(n - 1) - i : i; };
  // The element at distance `p` from the beginning of the scan.
  const auto element = [&](std::vector<Expr> at, const Expr& p) {
    at[d] = place(way.exclusive ? p - 1 : p);
    const Expr value = x.at(std::move(at));
    const Expr inside = n % block == 0 ? Expr(true) : Expr(p < n);
    return select(way.exclusive ? inside && p > 0 : inside, value, combine.identity);
  };
  const Axis k = reduce_axis(block, "k", call.where);
  if (block == n) {
    return compute(
        x.shape(),
        [&](const std::vector<Axis>& i) {
          const Expr p = place(i[d]);
          return combine.reduce(select(k <= p, element(impl::exprs(i), k), combine.identity), k);
        },
        call.op, call.op, call.where);
  }
  std::vector<int64_t> shape = x.extents();
  shape[d] = (n + block - 1) / block;
  const Tensor totals = compute(
      impl::to_shape(shape),
      [&](const std::vector<Axis>& i) {
        return combine.reduce(element(impl::exprs(i), i[d] * block + k), k);
      },
      std::string(call.op) + "_blocks", call.op, call.where);
  const Tensor before = scanned(call, totals, axis, combine, {.exclusive = true});
  const Axis r = reduce_axis(block, "k", call.where);
  return compute(
      x.shape(),
      [&](const std::vector<Axis>& i) {
        const Expr p = place(i[d]), which = floordiv(p, block);
        std::vector<Expr> at = impl::exprs(i);
        const Expr own = element(at, which * block + r);
        at[d] = which;
        // A block begins with the total of the blocks before it.
        const Expr value = select(r < 1, combine.two(before.at(std::move(at)), own), own);
        return combine.reduce(select(r <= floormod(p, block), value, combine.identity), r);
      },
      call.op, call.op, call.where);
}

/// A scan in the type in which sums and products are accumulated.
Tensor wide_scan(const Call& call, const Tensor& x, int axis, bool product, Direction way) {
  impl::check_rank(call, x, "x", 1);
  const DataType t = impl::wide(x.dtype());
  Combine combine;
  combine.identity = make_const(t, product ? 1 : 0);
  combine.reduce = [&](const Expr& v, const Axis& k) {
    return product ? prod_in(t, v, {k}) : sum_in(t, v, {k});
  };
  combine.two = [&](const Expr& a, const Expr& b) { return product ? a * b : a + b; };
  axis = impl::normal_axis(call, axis, x.rank());
  return impl::convert(call, scanned(call, impl::convert(call, x, t), axis, combine, way),
                       x.dtype());
}

}  // namespace

Tensor cumsum(const Tensor& x, int axis, bool exclusive, bool reverse, Where where) {
  return wide_scan({"cumsum", where}, x, axis, false, {exclusive, reverse});
}

Tensor cumprod(const Tensor& x, int axis, bool exclusive, bool reverse, Where where) {
  return wide_scan({"cumprod", where}, x, axis, true, {exclusive, reverse});
}

Tensor scan(const Tensor& x, int axis, const Reducer& reducer, bool exclusive, bool reverse,
            Where where) {
  const Call call{"scan", where};
  impl::check_rank(call, x, "x", 1);
  if (!reducer.combiner()) impl::fail(call, "the reducer was never assigned");
  const Combiner& c = *reducer.combiner();
  if (c.size() != 1)
    impl::fail(call, "reducer '" + c.name + "' has " + std::to_string(c.size()) + " components",
               "a scan takes one");
  if (c.result[0].dtype() != x.dtype())
    impl::fail(call,
               "reducer '" + c.name + "' combines " + to_string(c.result[0].dtype()) +
                   ", and 'x' is " + impl::describe(x),
               "convert it with ops::cast");
  Combine combine;
  combine.identity = c.identity[0];
  combine.reduce = [&](const Expr& v, const Axis& k) { return reducer({v}, {k})[0]; };
  combine.two = [&](const Expr& a, const Expr& b) {
    return substitute(c.result[0], {{c.lhs[0], a}, {c.rhs[0], b}});
  };
  return scanned(call, x, impl::normal_axis(call, axis, x.rank()), combine, {exclusive, reverse});
}

}  // namespace heddle::ops
