#include "heddle/ops/bounded.h"

#include "heddle/ops/scatter.h"
#include "heddle/ops/sort.h"
#include "heddle/ops/transform.h"
#include "ops/between.h"
#include "ops/bounded.h"

namespace heddle::ops {
namespace {

using impl::Call;
using impl::Dims;
using impl::Places;

Expr one_if(const Expr& condition) { return select(condition, Expr(1), Expr(0)); }

/// The last of running numbers, as a tensor of rank 0, with something added.
Tensor last_of(const Call& call, const Tensor& running, int64_t more) {
  return compute(
      Shape{}, [&](const std::vector<Axis>&) { return running(running.extent(0) - 1) + more; },
      std::string(call.op) + "_count", call.op, call.where);
}

/// `f` of element number `from(r)` for each result r, and `other` for the others.
template <class F>
Tensor of_results(const Call& call, const Places& p, const Expr& other, F f) {
  const int64_t n = p.from.extent(0);
  return compute(
      p.from.shape(),
      [&](Axis r) { return select(p.from(r) < n, f(impl::within(p.from(r), n)), other); }, call.op,
      call.op, call.where);
}

/// i64 (n) where place(i) is f(i) for each i, and `other` what is no place.
template <class F>
Tensor written(const Call& call, const Tensor& place, const Expr& other, F f) {
  const auto made = [&](const char* name, const auto& of) {
    return compute(
        place.shape(), [&](Axis i) { return cast(i64, of(i)); }, std::string(call.op) + name,
        call.op, call.where);
  };
  return scatter_elements(made("_none", [&](const Axis&) { return other; }), place,
                          made("_elements", f), 0, ScatterReduction::Replace, call.where);
}

/// In the order of their first occurrences.
Unique by_occurrence(const Call& call, const Unique& u) {
  const int64_t n = u.values.extent(0);
  const auto known = [&](const Expr& r) { return r < u.count.at({}); };
  const Tensor first = compute(
      Shape{n}, [&](Axis r) { return select(known(r), u.first(r), Expr(n)); }, "unique_occurrence",
      call.op, call.where);
  // Value r of the result is value order.positions(r) of `u`.
  const Sorted order = sort(first, 0, false, call.where);
  const Tensor place =
      written(call, order.positions, Expr(0), [](const Axis& r) { return Expr(r); });
  const auto moved = [&](const Tensor& t, const Expr& other) {
    return compute(
        Shape{n},
        [&](Axis r) { return select(known(r), t(impl::within(order.positions(r), n)), other); },
        call.op, call.op, call.where);
  };
  return {moved(u.values, make_const(u.values.dtype(), 0)), moved(u.first, Expr(-1)),
          compute(
              Shape{n}, [&](Axis r) { return place(impl::within(u.inverse(r), n)); },
              "unique_inverse", call.op, call.where),
          moved(u.counts, Expr(0)), u.count};
}

}  // namespace

Places impl::places_of(const Call& call, const Tensor& flags) {
  const int64_t n = flags.extent(0);
  const Tensor ones = compute(
      Shape{n}, [&](Axis i) { return one_if(flags(i)); }, std::string(call.op) + "_flags", call.op,
      call.where);
  const Tensor before = cumsum(ones, 0, false, false, call.where);
  // Each result is told where it comes from; what is none writes out of range, which is nothing.
  const Tensor place = compute(
      Shape{n}, [&](Axis i) { return select(flags(i), before(i) - 1, Expr(n)); },
      std::string(call.op) + "_place", call.op, call.where);
  const Tensor from = written(call, place, Expr(n), [](const Axis& i) { return Expr(i); });
  return {before, last_of(call, before, 0), from};
}

Bounded nonzero(const Tensor& x, Where where) {
  const Call call{"nonzero", where};
  impl::check_rank(call, x, "x", 0);
  const Dims dims = x.extents();
  const int64_t n = impl::product(dims);
  if (n < 1) impl::fail(call, "x " + impl::text(dims) + " has no elements");
  const Tensor flat = reshape(x, {n}, where);
  const Tensor flags = compute(
      Shape{n},
      [&](Axis i) {
        return x.dtype().is_bool() ? flat(i) : Expr(flat(i) != make_const(x.dtype(), 0));
      },
      "nonzero_flags", call.op, where);
  const Places p = impl::places_of(call, flags);
  const Tensor values = compute(
      Shape{x.rank(), n},
      [&](Axis d, Axis r) {
        Expr place = Expr(-1);
        int64_t stride = 1;
        for (int k = x.rank() - 1; k >= 0; --k) {
          const int64_t extent = x.extent(k);
          place = select(Expr(d) == Expr(k), floormod(floordiv(p.from(r), stride), extent), place);
          stride *= extent;
        }
        return select(p.from(r) < n, place, Expr(-1));
      },
      call.op, call.op, where);
  return {values, p.count};
}

Bounded compress(const Tensor& x, const Tensor& condition, int axis, Where where) {
  const Call call{"compress", where};
  impl::check_rank(call, x, "x", 1);
  impl::check_rank(call, condition, "condition", 1, 1);
  axis = impl::normal_axis(call, axis, x.rank());
  const int64_t n = condition.extent(0);
  if (!condition.dtype().is_bool() || n > x.extent(axis) || n < 1)
    impl::fail(call, "argument 'condition' is " + impl::describe(condition) +
                         ", and needs bools for dimension " + std::to_string(axis) + " of " +
                         impl::text(x.extents()));
  const Places p = impl::places_of(call, condition);
  Dims dims = x.extents();
  const auto d = static_cast<size_t>(axis);
  dims[d] = n;
  const Tensor values = compute(
      impl::to_shape(dims),
      [&](const std::vector<Axis>& i) {
        std::vector<Expr> at = impl::exprs(i);
        const Expr from = p.from(i[d]);
        at[d] = impl::within(from, n);
        return select(from < n, x.at(std::move(at)), make_const(x.dtype(), 0));
      },
      call.op, call.op, where);
  return {values, p.count};
}

Unique unique(const Tensor& x, bool sorted, Where where) {
  const Call call{"unique", where};
  impl::check_rank(call, x, "x", 1, 1);
  const int64_t n = x.extent(0);
  if (n < 1) impl::fail(call, "x has no elements");
  const Sorted s = sort(x, 0, false, where);
  const Tensor begins = compute(
      Shape{n},
      [&](Axis i) {
        const Expr mine = s.values(i), last = s.values(heddle::max(i - 1, Expr(0)));
        Expr differ = mine != last;
        if (mine.dtype().is_float())
          differ = differ && !(heddle::isnan(mine) && heddle::isnan(last));
        return Expr(i) < 1 || differ;
      },
      "unique_begins", call.op, where);
  const Places p = impl::places_of(call, begins);
  const Expr zero = make_const(x.dtype(), 0);
  Unique u{of_results(call, p, zero, [&](const Expr& i) { return s.values(i); }),
           of_results(call, p, Expr(-1), [&](const Expr& i) { return s.positions(i); }),
           written(call, s.positions, Expr(0), [&](const Axis& i) { return p.before(i) - 1; }),
           {},
           p.count};
  u.counts = compute(
      Shape{n},
      [&](Axis r) {
        const Expr next = select(Expr(r) < n - 1, p.from(heddle::min(r + 1, Expr(n - 1))), Expr(n));
        return next - p.from(r);
      },
      "unique_counts", call.op, where);
  return sorted ? u : by_occurrence(call, u);
}

}  // namespace heddle::ops
