// Long rows in order of their values, by networks that merge sorted lists (Batcher 1968): an exchange compares each
// element with its mirror image in the other list, and exchanges at half of the distance follow. Elements of one value are
// ordered by their positions, so that no two are equal and the order is stable.
//
// Whole rows are blocks of 32, which are sorted by counting; at distances below a block they are sorted by counting again.
// For the first few elements of a row its columns are sorted, each as long as the result, and of two columns the first
// half stays. Neighbouring columns are lanes of vectors.
#include <algorithm>
#include <limits>
#include <utility>

#include "ops/between.h"
#include "ops/order.h"

namespace heddle::ops::impl {
namespace {

constexpr int64_t kBlock = 32;

/// Rows of blocks (rows, blocks, kBlock), or rows of columns (rows, length, columns), and where their elements come
/// from: i32.
struct Rows {
  Tensor values, positions;
};

class Order {
 public:
  Order(const Call& call, bool largest) : call_(call), largest_(largest) {}

  /// The rows of x as `lines` by `width` elements, with elements behind them that come last.
  Rows padded(const Tensor& x, int64_t lines, int64_t width) const {
    const int64_t have = x.extent(1);
    const DataType t = x.dtype();
    const Expr last = largest_       ? lowest_value(t)
                      : t.is_float() ? make_const(t, std::numeric_limits<double>::quiet_NaN())
                                     : highest_value(t);
    return stage(
        Shape{x.extent(0), lines, width},
        [&](const Axis& r, const Axis& b, const Axis& l) {
          const Expr i = b * width + l;
          const Expr value = x(r, heddle::min(i, Expr(have - 1)));
          return std::vector<Expr>{have == lines * width ? value : select(i < have, value, last),
                                   cast(i32, i)};
        },
        "_rows");
  }

  /// Each block in order: the rank of each element in it, which one has each rank, and that one.
  Rows sorted_blocks(const Rows& rows) const {
    const int64_t block = rows.values.extent(2);
    const Axis j = reduce_axis(block, "j", call_.where);
    const auto name = [&](const char* part) { return std::string(call_.op) + part; };
    const auto one_if = [](const Expr& c, const Expr& value) {
      return select(c, cast(i32, value), make_const(i32, 0));
    };
    const Tensor rank = compute(
        rows.values.shape(),
        [&](Axis r, Axis b, Axis l) {
          return heddle::sum(one_if(before(at(rows, r, b, j), at(rows, r, b, l)), Expr(1)), j);
        },
        name("_rank"), call_.op, call_.where);
    const Tensor from = compute(
        rank.shape(),
        [&](Axis r, Axis b, Axis l) {
          return heddle::sum(one_if(rank(r, b, j) == cast(i32, Expr(l)), Expr(j)), j);
        },
        name("_from"), call_.op, call_.where);
    return stage(
        rank.shape(),
        [&](const Axis& r, const Axis& b, const Axis& l) {
          return at(rows, r, b, within(cast(i64, from(r, b, l)), block));
        },
        "_blocks");
  }

  /// Of lists of 2 `lines`, each half of which is in order, the first elements in the first half. The order of
  /// blocks goes through their elements, that of columns does not.
  Rows mirrored(const Rows& rows, int64_t lines, bool blocks) const {
    return exchanged(rows, lines, [&](const Expr& b, const Expr& l) {
      const Expr list = floordiv(b, 2 * lines) * (2 * lines);
      return std::pair(list + ((2 * lines - 1) - floormod(b, 2 * lines)),
                       blocks ? (rows.values.extent(2) - 1) - l : l);
    });
  }
  /// Elements of lines at `distance`, half of that, and so on in order.
  Rows merged(Rows rows, int64_t distance) const {
    for (; distance >= 1; distance /= 2) {
      rows = exchanged(rows, distance, [&](const Expr& b, const Expr& l) {
        const Expr list = floordiv(b, 2 * distance) * (2 * distance);
        return std::pair(list + floormod(b + distance, 2 * distance), l);
      });
    }
    return rows;
  }
  /// The first half of each two sorted columns in order.
  Rows halved(const Rows& rows) const {
    const int64_t length = rows.values.extent(1), columns = rows.values.extent(2) / 2;
    const Rows first = stage(
        Shape{rows.values.extent(0), length, columns},
        [&](const Axis& r, const Axis& l, const Axis& c) {
          const std::vector<Expr> own = at(rows, r, l, c);
          const std::vector<Expr> other = at(rows, r, (length - 1) - l, c + columns);
          return chosen(before(own, other), own, other);
        },
        "_halves");
    return merged(first, length / 2);
  }
  /// The columns as one block.
  Rows one_block(const Rows& rows) const {
    const int64_t columns = rows.values.extent(2);
    return stage(
        Shape{rows.values.extent(0), 1, rows.values.extent(1) * columns},
        [&](const Axis& r, const Axis&, const Axis& i) {
          return at(rows, r, floordiv(i, columns), floormod(i, columns));
        },
        "_block");
  }

 private:
  template <class Partner>
  Rows exchanged(const Rows& rows, int64_t distance, Partner partner) const {
    return stage(
        rows.values.shape(),
        [&](const Axis& r, const Axis& b, const Axis& l) {
          const auto [block, place] = partner(b, l);
          const std::vector<Expr> own = at(rows, r, b, l), other = at(rows, r, block, place);
          const Expr low = floormod(floordiv(Expr(b), distance), 2) == 0;
          return chosen(low == before(own, other), own, other);
        },
        "_exchange");
  }
  template <class F>
  Rows stage(const Shape& shape, F body, const char* part) const {
    const std::vector<Tensor> both = compute_all(
        shape, [&](Axis r, Axis b, Axis l) { return body(r, b, l); }, std::string(call_.op) + part,
        call_.op, call_.where);
    return {both[0], both[1]};
  }
  static std::vector<Expr> at(const Rows& rows, const Expr& r, const Expr& b, const Expr& l) {
    return {rows.values(r, b, l), rows.positions(r, b, l)};
  }
  static std::vector<Expr> chosen(const Expr& first, const std::vector<Expr>& a,
                                  const std::vector<Expr>& b) {
    return {select(first, a[0], b[0]), select(first, a[1], b[1])};
  }
  /// Whether an element, its value and its position, comes before another one.
  Expr before(const std::vector<Expr>& a, const std::vector<Expr>& b) const {
    return is_before(a[0], b[0], a[1] < b[1], largest_);
  }

  const Call& call_;
  bool largest_;
};

// With fewer columns whole rows are sorted as fast.
constexpr int64_t kFewestColumns = 4;
// The elements of a row that are sorted by counting in the end, and the shortest columns.
constexpr int64_t kFewElements = 64, kShortColumn = 4;

int64_t power_of_2_from(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

/// The first `length` elements of each row in order, as a column or a block.
Rows first_elements(const Order& order, const Tensor& x, int64_t length) {
  int64_t columns = power_of_2_from((x.extent(1) + length - 1) / length);
  Rows rows = order.padded(x, length, columns);
  for (int64_t list = 1; list < length; list *= 2)
    rows = order.merged(order.mirrored(rows, list, false), list / 2);
  for (; columns > 1 && length * columns > kFewElements; columns /= 2) rows = order.halved(rows);
  return columns == 1 ? rows : order.sorted_blocks(order.one_block(rows));
}

/// (rows, blocks, kBlock), all in order.
Rows all_elements(const Order& order, const Tensor& x) {
  const int64_t blocks = power_of_2_from((x.extent(1) + kBlock - 1) / kBlock);
  Rows rows = order.sorted_blocks(order.padded(x, blocks, kBlock));
  for (int64_t length = 1; length < blocks; length *= 2) {
    rows = order.sorted_blocks(order.merged(order.mirrored(rows, length, true), length / 2));
  }
  return rows;
}

}  // namespace

Sorted sorted_rows(const Call& call, const Tensor& x, int64_t k, bool largest) {
  const Order order(call, largest);
  const int64_t length = std::max(kShortColumn, power_of_2_from(k));
  const Rows rows = length * kFewestColumns <= x.extent(1) ? first_elements(order, x, length)
                                                           : all_elements(order, x);
  const int64_t block = rows.values.extent(2);
  const auto element = [&](const Tensor& t, const Expr& r, const Expr& i) {
    return t(r, floordiv(i, block), floormod(i, block));
  };
  const std::vector<Tensor> both = compute_all(
      Shape{x.extent(0), k},
      [&](Axis r, Axis i) {
        return std::vector<Expr>{element(rows.values, r, i),
                                 cast(i64, element(rows.positions, r, i))};
      },
      call.op, call.op, call.where);
  return {both[0], both[1]};
}

}  // namespace heddle::ops::impl
