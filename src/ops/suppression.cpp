// Non-maximum suppression: as many steps as boxes may be kept, each of which keeps the best box of all
// classes at once and leaves out what it overlaps.
#include <limits>

#include "heddle/ops/bounded.h"
#include "heddle/ops/elementwise.h"
#include "heddle/ops/reduce.h"
#include "heddle/ops/transform.h"
#include "ops/between.h"

namespace heddle::ops {
namespace {

using impl::Call;

// The largest number of steps. Each has kernels of its own.
constexpr int64_t kMostSteps = 1024;

class Suppressing {
 public:
  Suppressing(const Call& call, const Tensor& boxes, const Tensor& scores, const Suppression& a)
      : call_(call), a_(a), type_(impl::wide(scores.dtype())) {
    n_ = boxes.extent(1);
    corners_ = compute(
        boxes.shape(),
        [&](Axis b, Axis i, Axis side) {
          const auto given = [&](int64_t k) { return cast(type_, boxes(b, i, Expr(k))); };
          const Expr half = make_const(type_, 0.5);
          const Expr low[] = {
              a.centred ? given(1) - given(3) * half : heddle::min(given(0), given(2)),
              a.centred ? given(0) - given(2) * half : heddle::min(given(1), given(3))};
          const Expr high[] = {
              a.centred ? given(1) + given(3) * half : heddle::max(given(0), given(2)),
              a.centred ? given(0) + given(2) * half : heddle::max(given(1), given(3))};
          return select(side < 2, select(side < 1, low[0], low[1]),
                        select(side < 3, high[0], high[1]));
        },
        "nms_corners", call.op, call.where);
  }

  /// Where the score is larger than `least`, the score; else -inf.
  void begin(const Tensor& scores, const Tensor& least) {
    left_ = compute(
        scores.shape(),
        [&](Axis b, Axis c, Axis i) {
          const Expr score = cast(type_, scores(b, c, i));
          if (!least) return score;
          const Expr bound = cast(type_, least.rank() == 0 ? least.at({}) : least(Expr(0)));
          return select(score > bound, score, lowest_value(type_));
        },
        "nms_scores", call_.op, call_.where);
    order_ = compute(
        scores.shape(), [&](const std::vector<Axis>&) { return Expr(a_.most); }, "nms_order",
        call_.op, call_.where);
  }

  void step(int64_t t) {
    const Tensor best = argmax(left_, 2, true, call_.where);
    const Tensor top = ops::max(left_, {2}, true, call_.where);
    const auto is_kept = [&](const Expr& b, const Expr& c, const Expr& i) {
      return best(b, c, Expr(0)) == i && top(b, c, Expr(0)) > lowest_value(type_);
    };
    order_ = compute(
        order_.shape(),
        [&](Axis b, Axis c, Axis i) { return select(is_kept(b, c, i), Expr(t), order_(b, c, i)); },
        "nms_order", call_.op, call_.where);
    left_ = compute(
        left_.shape(),
        [&](Axis b, Axis c, Axis i) {
          const Expr kept = impl::within(best(b, c, Expr(0)), n_);
          return select(Expr(i) == kept || overlaps(b, kept, i), lowest_value(type_),
                        left_(b, c, i));
        },
        "nms_left", call_.op, call_.where);
  }

  const Tensor& order() const { return order_; }

 private:
  Expr overlaps(const Expr& b, const Expr& i, const Expr& j) const {
    const Expr none = make_const(type_, 0);
    Expr common, area[2];
    for (const int64_t d : {0, 1}) {
      const auto side = [&](const Expr& box, int64_t k) {
        return corners_(b, box, Expr(d + 2 * k));
      };
      const Expr length = heddle::max(
          heddle::min(side(i, 1), side(j, 1)) - heddle::max(side(i, 0), side(j, 0)), none);
      common = d == 0 ? length : common * length;
      for (const size_t k : {0, 1}) {
        const Expr& box = k == 0 ? i : j;
        const Expr own = side(box, 1) - side(box, 0);
        area[k] = d == 0 ? own : area[k] * own;
      }
    }
    const Expr all = area[0] + area[1] - common;
    const Expr counts = common > none && area[0] > none && area[1] > none && all > none;
    return counts && common > all * make_const(type_, a_.overlap);
  }

  Call call_;
  Suppression a_;
  DataType type_;
  int64_t n_ = 0;
  Tensor corners_, left_, order_;
};

/// Rows (image, class, box) of the boxes that have an order of less than `most`.
Bounded rows_of(const Call& call, const Tensor& order, int64_t most) {
  const int64_t images = order.extent(0), classes = order.extent(1), n = order.extent(2);
  const int64_t groups = images * classes;
  const Tensor flat = reshape(order, {groups, n}, call.where);
  const Axis i = reduce_axis(n, "i", call.where), k = reduce_axis(n, "i", call.where);
  const Tensor counts = compute(
      Shape{groups},
      [&](Axis g) { return heddle::sum(select(flat(g, i) < most, Expr(1), Expr(0)), i); },
      "nms_counts", call.op, call.where);
  const Tensor chosen = compute(
      Shape{groups, most},
      [&](Axis g, Axis m) {
        return heddle::sum(select(flat(g, k) == Expr(m), Expr(k), Expr(0)), k);
      },
      "nms_chosen", call.op, call.where);
  const Tensor upto = cumsum(counts, 0, false, false, call.where);
  const Axis h = reduce_axis(groups, "g", call.where);
  const Tensor group = compute(
      Shape{groups * most},
      [&](Axis r) { return heddle::sum(select(upto(h) <= Expr(r), Expr(1), Expr(0)), h); },
      "nms_groups", call.op, call.where);
  const Tensor values = compute(
      Shape{groups * most, 3},
      [&](Axis r, Axis column) {
        const Expr g = impl::within(group(r), groups);
        const Expr m = impl::within(Expr(r) - (upto(g) - counts(g)), most);
        const Expr place = select(column < 1, floordiv(g, classes),
                                  select(column < 2, floormod(g, classes), chosen(g, m)));
        return select(group(r) < groups, place, Expr(-1));
      },
      call.op, call.op, call.where);
  const Tensor count = compute(
      Shape{}, [&](const std::vector<Axis>&) { return upto(groups - 1) + 0; }, "nms_count", call.op,
      call.where);
  return {values, count};
}

}  // namespace

Bounded non_max_suppression(const Tensor& boxes, const Tensor& scores,
                            const Suppression& attributes, const Tensor& least, Where where) {
  const Call call{"non_max_suppression", where};
  impl::check_rank(call, boxes, "boxes", 3, 3);
  impl::check_rank(call, scores, "scores", 3, 3);
  impl::check_float(call, boxes, "boxes");
  impl::check_float(call, scores, "scores");
  if (boxes.extent(2) != 4 || boxes.extent(0) != scores.extent(0) ||
      boxes.extent(1) != scores.extent(2) || impl::product(scores.extents()) < 1)
    impl::fail(call,
               "'boxes' " + impl::text(boxes.extents()) + " and 'scores' " +
                   impl::text(scores.extents()) + " do not go together",
               "they are (N, n, 4) and (N, classes, n)");
  if (least) {
    impl::check_rank(call, least, "least", 0, 1);
    impl::check_float(call, least, "least");
    if (least.size() != 1) impl::fail(call, "'least' is " + impl::describe(least));
  }
  Suppression a = attributes;
  a.most = std::min(a.most, boxes.extent(1));
  if (a.most < 1 || a.most > kMostSteps)
    impl::fail(call, "at most " + std::to_string(a.most) + " boxes of a class are kept",
               "'most' is in [1, " + std::to_string(kMostSteps) + "]: each box takes a step");
  Suppressing s(call, boxes, scores, a);
  s.begin(scores, least);
  for (int64_t t = 0; t < a.most; ++t) s.step(t);
  return rows_of(call, s.order(), a.most);
}

}  // namespace heddle::ops
