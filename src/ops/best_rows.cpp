// The first few elements of long rows, one after the other. A row is read as lines of columns: the best of each column,
// then as often as there are results the best of these, in whose place the next one of its column comes.
//
//   best[c]  = the first of x[l, c] over lines l
//   top      = the first of best[c] over columns c                          once for each result
//   next     = the first of x[l, column of top] over l, of those behind top
//   best[c]' = c is the column of top ? next : best[c]
//
// A result takes as many comparisons as there are columns and lines, and the row is read once. Elements of one value are
// ordered by their positions, so that no two are equal.
#include <limits>
#include <utility>

#include "ops/between.h"
#include "ops/order.h"

namespace heddle::ops::impl {
namespace {

// Each result has nodes of its own.
constexpr int64_t kMostResults = 32;
// Columns are lanes of vectors.
constexpr int64_t kFewestColumns = 16;

int64_t columns_of(int64_t n) {
  int64_t columns = kFewestColumns;
  while (4 * columns * columns <= n) columns *= 2;
  return columns;
}

/// An element: its value and its position, i32.
using Element = std::vector<Expr>;
using Elements = std::vector<Tensor>;

class Best {
 public:
  Best(const Call& call, const Tensor& x, bool largest)
      : call_(call),
        x_(x),
        largest_(largest),
        columns_(columns_of(x.extent(1))),
        lines_((x.extent(1) + columns_ - 1) / columns_),
        first_(reducer(
            call.op, {x.dtype(), i32}, {last_value(), last_position()},
            [&](const Element& a, const Element& b) {
              const Expr a_first = before(a, b);
              return Element{select(a_first, a[0], b[0]), select(a_first, a[1], b[1])};
            },
            true, call.where)) {}

  Sorted run(int64_t k) const {
    const Axis l = reduce_axis(lines_, "l", call_.where);
    Elements best = compute_all(
        Shape{x_.shape()[0], columns_},
        [&](Axis r, Axis c) { return first_(element(r, l * columns_ + c), {l}); }, name("_columns"),
        call_.op, call_.where);
    std::vector<Elements> tops;
    for (int64_t t = 0; t < k; ++t) {
      tops.push_back(top_of(best));
      if (t + 1 < k) best = without(best, tops.back());
    }
    const std::vector<Tensor> all = compute_all(
        Shape{x_.shape()[0], k},
        [&](Axis r, Axis t) {
          return Element{among(tops, 0, 0, tops.size(), r, t),
                         cast(i64, among(tops, 1, 0, tops.size(), r, t))};
        },
        call_.op, call_.op, call_.where);
    return {all[0], all[1]};
  }

 private:
  std::string name(const char* part) const { return std::string(call_.op) + part; }
  Expr last_value() const {
    const DataType t = x_.dtype();
    return largest_       ? lowest_value(t)
           : t.is_float() ? make_const(t, std::numeric_limits<double>::quiet_NaN())
                          : highest_value(t);
  }
  static Expr last_position() { return make_const(i32, std::numeric_limits<int32_t>::max()); }
  Expr before(const Element& a, const Element& b) const {
    return is_before(a[0], b[0], a[1] < b[1], largest_);
  }
  /// Element `i` of a row; those behind its end come last.
  Element element(const Expr& r, const Expr& i) const {
    const int64_t n = x_.extent(1);
    const Expr value = x_(r, heddle::min(i, Expr(n - 1)));
    return {n == lines_ * columns_ ? value : select(i < n, value, last_value()), cast(i32, i)};
  }

  Elements top_of(const Elements& best) const {
    const Axis c = reduce_axis(columns_, "c", call_.where);
    return compute_all(
        Shape{x_.shape()[0]}, [&](Axis r) { return first_({best[0](r, c), best[1](r, c)}, {c}); },
        name("_top"), call_.op, call_.where);
  }

  Elements without(const Elements& best, const Elements& top) const {
    const auto column = [&](const Expr& r) {
      return floormod(within(cast(i64, top[1](r)), lines_ * columns_), columns_);
    };
    const Axis l = reduce_axis(lines_, "l", call_.where);
    const Elements next = compute_all(
        Shape{x_.shape()[0]},
        [&](Axis r) {
          const Element own = element(r, l * columns_ + column(r));
          const Expr behind = before({top[0](r), top[1](r)}, own);
          return first_(
              {select(behind, own[0], last_value()), select(behind, own[1], last_position())}, {l});
        },
        name("_next"), call_.op, call_.where);
    return compute_all(
        best[0].shape(),
        [&](Axis r, Axis c) {
          const Expr is_next = Expr(c) == column(r);
          return Element{select(is_next, next[0](r), best[0](r, c)),
                         select(is_next, next[1](r), best[1](r, c))};
        },
        name("_best"), call_.op, call_.where);
  }

  static Expr among(const std::vector<Elements>& tops, size_t part, size_t begin, size_t end,
                    const Expr& r, const Expr& t) {
    if (begin + 1 == end) return tops[begin][part](r);
    const size_t middle = (begin + end) / 2;
    return select(t < static_cast<int64_t>(middle), among(tops, part, begin, middle, r, t),
                  among(tops, part, middle, end, r, t));
  }

  const Call& call_;
  const Tensor& x_;
  bool largest_;
  int64_t columns_, lines_;
  Reducer first_;
};

}  // namespace

bool is_few(int64_t k, int64_t n) {
  const int64_t columns = columns_of(n);
  return k <= kMostResults && k * (2 * columns + n / columns) <= 2 * n;
}

Sorted best_rows(const Call& call, const Tensor& x, int64_t k, bool largest) {
  return Best(call, x, largest).run(k);
}

}  // namespace heddle::ops::impl
