// The tokens that top_k and top_p leave are those whose levels are not beyond a limit, the least at which enough are
// left. It is searched in digits:
//
//   F[b, j]  = sum over tokens of level <= low[b] + j steps, last of the step     1, or their weight
//   low[b]  += the number of j with F[b, j] < wanted[b], in steps
#include "generate/kept.h"

#include <cmath>
#include <functional>
#include <limits>
#include <utility>

namespace heddle::generate {
namespace {

constexpr int64_t kDigits = 128;  // that a pass tells apart
static_assert(kLevels == kDigits * kDigits);
constexpr int64_t kWordBits = 32, kWord = int64_t{1} << kWordBits;
static_assert(kParts < kWord);

Expr number(int64_t value) { return make_int(i64, value); }

class Search {
 public:
  using OfRow = std::function<Expr(const Expr& b)>;
  /// What a token adds, and its level.
  using OfToken = std::function<std::pair<Expr, Expr>(const Expr& b, const Expr& i)>;

  Search(Shape shape, OfToken token, Where where)
      : shape_(std::move(shape)), token_(std::move(token)), where_(where) {
    first_ = up_to([](const Expr&, const Expr& j) { return j * kDigits + (kDigits - 1); });
  }

  /// What all levels sum to.
  Expr all(const Expr& b) const { return first_(b, number(kDigits - 1)); }

  /// The least level up to which tokens sum to what is wanted; the last one where they never do.
  Tensor run(const OfRow& wanted) const {
    const Tensor high = found(first_, wanted);
    const Tensor second =
        up_to([&](const Expr& b, const Expr& j) { return high(b) * kDigits + j; });
    const Tensor low = found(second, wanted);
    return compute(
        {shape_[0]}, [&](Axis b) { return high(b) * kDigits + low(b); }, "limit", "draw", where_);
  }

 private:
  template <class Limit>
  Tensor up_to(Limit limit) const {
    return compute(
        {shape_[0], kDigits},
        [&](Axis b, Axis j) {
          const Axis i = reduce_axis(shape_[1], "i", where_);
          const auto [measure, level] = token_(b, i);
          return sum(select(level <= cast(level.dtype(), limit(b, j)), measure,
                            make_int(measure.dtype(), 0)),
                     {i});
        },
        "up_to", "draw", where_);
  }
  Tensor found(const Tensor& sums, const OfRow& wanted) const {
    return compute(
        {shape_[0]},
        [&](Axis b) {
          const Axis j = reduce_axis(kDigits - 1, "j", where_);
          return sum(select(cast(i64, sums(b, j)) < wanted(b), number(1), number(0)), {j});
        },
        "digit", "draw", where_);
  }

  const Shape shape_;
  const OfToken token_;
  const Where where_;
  Tensor first_;
};

}  // namespace

Kept kept_tokens(const Tensor& logits, const Tensor& temperature, const DrawLimits& limits,
                 Where where) {
  const Expr batch = logits.shape()[0];
  const Tensor most = compute(
      {batch},
      [&](Axis b) {
        const Axis i = reduce_axis(logits.extent(1), "i", where);
        return reduce_fmax(logits(b, i), {i});
      },
      "most", "draw", where);
  const Tensor levels = compute(
      logits.shape(),
      [&](Axis b, Axis i) {
        const Expr x = cast(f64, logits(b, i)), largest = cast(f64, most(b));
        const Expr steps = (largest - x) * (make_const(f64, kSteps) / temperature(0));
        const Expr level = select(steps < make_const(f64, kLevels - 1), cast(i32, floor(steps)),
                                  make_int(i32, kLevels - 1));
        return select(isnan(x), make_int(i32, kLevels),
                      select(x == largest, make_int(i32, 0), level));
      },
      "levels", "draw", where);
  const Search counts(
      logits.shape(),
      [&](const Expr& b, const Expr& i) { return std::pair(make_int(i32, 1), levels(b, i)); },
      where);
  const Tensor in_k = counts.run([&](const Expr&) {
    const Expr k = cast(i64, limits.top_k(0));
    return select(k > number(0), k, number(std::numeric_limits<int64_t>::max()));
  });
  // A level and its weight in one word, of which a pass reads many.
  const Tensor weights = compute(
      logits.shape(),
      [&](Axis b, Axis i) {
        const Expr share = exp(cast(f64, levels(b, i)) * make_const(f64, -1 / kSteps));
        const Expr level = cast(i64, levels(b, i));
        return select(level <= in_k(b),
                      level * number(kWord) + cast(i64, floor(share * make_const(f64, kParts))),
                      number(kLevels * kWord));
      },
      "weights", "draw", where);
  const Search masses(
      logits.shape(),
      [&](const Expr& b, const Expr& i) {
        const Expr word = weights(b, i);
        return std::pair(bitwise_and(word, number(kWord - 1)),
                         shift_right(word, number(kWordBits)));
      },
      where);
  const Tensor in_p = masses.run(
      [&](const Expr& b) { return cast(i64, ceil(limits.top_p(0) * cast(f64, masses.all(b)))); });
  return {levels, compute(
                      {batch},
                      [&](Axis b) {
                        const Expr whole = limits.top_p(0) >= make_const(f64, 1);
                        return cast(i32, select(whole, in_k(b), heddle::min(in_p(b), in_k(b))));
                      },
                      "kept", "draw", where)};
}

}  // namespace heddle::generate
