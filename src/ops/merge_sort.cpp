// Long rows in order of their values. Blocks of 32 are sorted by counting, and sorted lists are merged by bitonic
// networks (Batcher 1968): an exchange compares each element with its mirror image in the other list, exchanges at
// half of the distance follow, and at distances below a block the blocks are sorted by counting again. Elements of one value
// are ordered by their positions, so that no two are equal and the order is stable.
#include <limits>
#include <utility>

#include "ops/between.h"
#include "ops/order.h"

namespace heddle::ops::impl {
namespace {

constexpr int64_t kBlock = 32;

/// Rows of blocks (rows, blocks, kBlock), and where their elements come from: i32.
struct Rows {
  Tensor values, positions;
};

class Order {
 public:
  Order(const Call& call, bool largest) : call_(call), largest_(largest) {}

  /// Blocks of the rows of x, with elements behind them that come last.
  Rows padded(const Tensor& x, int64_t blocks) const {
    const int64_t have = x.extent(1);
    const DataType t = x.dtype();
    const Expr last = largest_       ? lowest_value(t)
                      : t.is_float() ? make_const(t, std::numeric_limits<double>::quiet_NaN())
                                     : highest_value(t);
    return stage(
        Shape{x.extent(0), blocks, kBlock},
        [&](const Axis& r, const Axis& b, const Axis& l) {
          const Expr i = b * kBlock + l;
          const Expr value = x(r, heddle::min(i, Expr(have - 1)));
          return std::vector<Expr>{have == blocks * kBlock ? value : select(i < have, value, last),
                                   cast(i32, i)};
        },
        "_rows");
  }

  /// Each block in order: the rank of each element in it, which one has each rank, and that one.
  Rows sorted_blocks(const Rows& rows) const {
    const Axis j = reduce_axis(kBlock, "j", call_.where);
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
          return at(rows, r, b, within(cast(i64, from(r, b, l)), kBlock));
        },
        "_blocks");
  }

  /// Of lists of 2 `blocks`, each half of which is in order, the first elements in the first half.
  Rows mirrored(const Rows& rows, int64_t blocks) const {
    return exchanged(rows, blocks, [&](const Expr& b, const Expr& l) {
      const Expr list = floordiv(b, 2 * blocks) * (2 * blocks);
      return std::pair(list + ((2 * blocks - 1) - floormod(b, 2 * blocks)), (kBlock - 1) - l);
    });
  }
  /// Elements of blocks at a `distance` in order.
  Rows exchanged(const Rows& rows, int64_t distance) const {
    return exchanged(rows, distance, [&](const Expr& b, const Expr& l) {
      const Expr list = floordiv(b, 2 * distance) * (2 * distance);
      return std::pair(list + floormod(b + distance, 2 * distance), l);
    });
  }
  /// The first kBlock elements of each two sorted blocks that lie side by side, in no order.
  Rows halved(const Rows& rows) const {
    return stage(
        Shape{rows.values.extent(0), rows.values.extent(1) / 2, kBlock},
        [&](const Axis& r, const Axis& b, const Axis& l) {
          const std::vector<Expr> own = at(rows, r, b * 2, l);
          const std::vector<Expr> other = at(rows, r, b * 2 + 1, (kBlock - 1) - l);
          return chosen(before(own, other), own, other);
        },
        "_halves");
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

}  // namespace

Sorted sorted_rows(const Call& call, const Tensor& x, int64_t k, bool largest) {
  const Order order(call, largest);
  int64_t blocks = 1;
  while (blocks * kBlock < x.extent(1)) blocks *= 2;
  Rows rows = order.sorted_blocks(order.padded(x, blocks));
  if (k <= kBlock) {
    for (; blocks > 1; blocks /= 2) rows = order.sorted_blocks(order.halved(rows));
  } else {
    for (int64_t length = 1; length < blocks; length *= 2) {
      rows = order.mirrored(rows, length);
      for (int64_t distance = length / 2; distance >= 1; distance /= 2)
        rows = order.exchanged(rows, distance);
      rows = order.sorted_blocks(rows);
    }
  }
  const auto element = [&](const Tensor& t, const Expr& r, const Expr& i) {
    return k <= kBlock ? t(r, Expr(0), i) : t(r, floordiv(i, kBlock), floormod(i, kBlock));
  };
  const Shape shape{x.extent(0), k};
  return {compute(
              shape, [&](Axis r, Axis i) { return element(rows.values, r, i); }, call.op, call.op,
              call.where),
          compute(
              shape, [&](Axis r, Axis i) { return cast(i64, element(rows.positions, r, i)); },
              std::string(call.op) + "_positions", call.op, call.where)};
}

}  // namespace heddle::ops::impl
