// The tokens that top_k and top_p leave are those of the largest logits, of equal ones the first. Nothing is
// sorted: a limit of their values is searched, and then a limit of the places of those that have this value. A
// search counts what lies beyond 64 limits at a time:
//
//   F[b, j]  = sum over tokens beyond limit low[b] + j << shift of their measure    1, or their weight
//   low[b]  += (the number of j with F[b, j] >= wanted[b], less 1) << shift
#include "generate/kept.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

namespace heddle::generate {
namespace {

constexpr int kDigit = 6;  // bits that a pass finds
constexpr int kMantissa = 23, kWord = 32;
constexpr int64_t kHidden = int64_t{1} << kMantissa;

Expr number(int64_t value) { return make_int(i64, value); }

/// The power of two of a mantissa of f32 with this exponent, made of powers that are exact.
Expr power_of(const Expr& exponent) {
  constexpr int64_t kLast = 255;
  const Expr e = heddle::max(heddle::min(exponent, number(kLast)), number(1));
  Expr power = make_const(f64, 0x1p-150);
  for (int bit = 0; bit < 8; ++bit) {
    const Expr has = bitwise_and(e, number(int64_t{1} << bit)) != number(0);
    power = power * select(has, make_const(f64, std::ldexp(1, 1 << bit)), make_const(f64, 1));
  }
  return select(e == number(kLast), make_const(f64, std::numeric_limits<double>::infinity()),
                power);
}

/// Number `u` of the 2^32 values of f32 in ascending order; those beyond infinity are infinite.
Expr value_of(const Expr& u) {
  constexpr int64_t kHalf = int64_t{1} << (kWord - 1);
  const Expr negative = u < number(kHalf);
  const Expr bits = select(negative, number(kHalf - 1) - u, u - number(kHalf));
  const Expr exponent = floordiv(bits, number(kHidden));
  const Expr fraction = floormod(bits, number(kHidden));
  const Expr whole = select(exponent > number(0), fraction + number(kHidden), fraction);
  const Expr value = cast(f64, whole) * power_of(exponent);
  return select(negative, -value, value);
}

/// One selection: the fewest of the largest tokens whose measures sum to `wanted`, among those that `among` says.
class Selection {
 public:
  using OfToken = std::function<Expr(const Expr& b, const Expr& i)>;

  Selection(const Tensor& logits, OfToken among, OfToken measure, Tensor wanted, Where where)
      : logits_(logits),
        among_(std::move(among)),
        measure_(std::move(measure)),
        wanted_(std::move(wanted)),
        where_(where) {}

  /// Whether a token is selected.
  OfToken run() {
    // The largest value beyond which, itself included, enough lie.
    const Tensor least = search(
        kWord, [&](const Expr& b) { return wanted_(b); },
        [&](const Tensor& limits, const Expr& b, const Expr& j, const Expr& i) {
          return select(logical_and(among_(b, i), x(b, i) >= limits(b, j)), measure_(b, i),
                        number(0));
        },
        [&](const Expr& u) { return value_of(u); }, f64);
    const Tensor value =
        compute({batch()}, [&](Axis b) { return value_of(least(b)); }, "least", "draw", where_);
    // What those of this value have to add, and the last place of one of them that is needed for it.
    const Tensor above = total([&](const Expr& b, const Expr& i) {
      return select(logical_and(among_(b, i), x(b, i) > value(b)), measure_(b, i), number(0));
    });
    int bits = 1;
    while ((int64_t{1} << bits) < logits_.extent(1)) ++bits;
    const Tensor last = search(
        bits, [&](const Expr& b) { return wanted_(b) - above(b); },
        [&](const Tensor& limits, const Expr& b, const Expr& j, const Expr& i) {
          const Expr same = logical_and(among_(b, i), x(b, i) == value(b));
          return select(logical_and(same, cast(i64, i) < limits(b, j)), measure_(b, i), number(0));
        },
        [](const Expr& u) { return u; }, i64, /*below=*/true);
    return [among = among_, logits = logits_, value, last](const Expr& b, const Expr& i) {
      const Expr at = cast(f64, logits(b, i));
      const Expr first = logical_and(at == value(b), cast(i64, i) <= last(b));
      return logical_and(among(b, i), logical_or(at > value(b), first));
    };
  }

  /// The sum over the tokens of each row.
  Tensor total(const OfToken& of) const {
    return compute(
        {batch()},
        [&](Axis b) {
          const Axis i = reduce_axis(logits_.extent(1), "i", where_);
          return sum(of(b, i), {i});
        },
        "mass", "draw", where_);
  }

 private:
  Expr batch() const { return logits_.shape()[0]; }
  Expr x(const Expr& b, const Expr& i) const { return cast(f64, logits_(b, i)); }

  /// The largest number of `bits` bits whose limit has at least what is wanted beyond it or, `below`, has less than
  /// that.
  template <class Wanted, class Term, class Limit>
  Tensor search(int bits, Wanted wanted, Term term, Limit limit_of, DataType type,
                bool below = false) const {
    Tensor low;
    for (int left = bits; left > 0;) {
      const int digit = std::min(kDigit, left);
      left -= digit;
      const int64_t step = int64_t{1} << left, limits = int64_t{1} << digit;
      const auto begin = [&](const Expr& b) { return low ? low(b) : number(0); };
      const Tensor at = compute(
          {batch(), limits},
          [&](Axis b, Axis j) {
            return cast(type, limit_of(begin(b) + cast(i64, j) * number(step)));
          },
          "limits", "draw", where_);
      const Tensor beyond = compute(
          {batch(), limits},
          [&](Axis b, Axis j) {
            const Axis i = reduce_axis(logits_.extent(1), "i", where_);
            return sum(term(at, b, j, i), {i});
          },
          "beyond", "draw", where_);
      const Tensor found = compute(
          {batch()},
          [&](Axis b) {
            const Axis j = reduce_axis(limits, "j", where_);
            const Expr enough = beyond(b, j) >= wanted(b);
            return sum(select(below ? !enough : enough, number(1), number(0)), {j});
          },
          "found", "draw", where_);
      const Tensor before = low;
      low = compute(
          {batch()},
          [&](Axis b) {
            const Expr digits = heddle::max(found(b) - number(1), number(0)) * number(step);
            return before ? before(b) + digits : digits;
          },
          "low", "draw", where_);
    }
    return low;
  }

  const Tensor logits_;
  const OfToken among_, measure_;
  const Tensor wanted_;
  const Where where_;
};

}  // namespace

Tensor kept_tokens(const Tensor& logits, const Tensor& temperature, const DrawLimits& limits,
                   Where where) {
  using OfToken = Selection::OfToken;
  const Expr batch = logits.shape()[0];
  const OfToken is_number = [&](const Expr& b, const Expr& i) { return !isnan(logits(b, i)); };
  const OfToken one = [](const Expr&, const Expr&) { return number(1); };
  const Tensor numbers =
      Selection(logits, is_number, one, {}, where).total([&](const Expr& b, const Expr& i) {
        return select(is_number(b, i), number(1), number(0));
      });
  const Tensor of_k = compute(
      {batch},
      [&](Axis b) {
        const Expr k = cast(i64, limits.top_k(0));
        return select(k > number(0), heddle::min(k, numbers(b)), numbers(b));
      },
      "top_k", "draw", where);
  const OfToken in_k = Selection(logits, is_number, one, of_k, where).run();

  const Tensor most = compute(
      {batch},
      [&](Axis b) {
        const Axis i = reduce_axis(logits.extent(1), "i", where);
        return reduce_fmax(logits(b, i), {i});
      },
      "most", "draw", where);
  const Tensor weights = compute(
      logits.shape(),
      [&](Axis b, Axis i) {
        const Expr x = cast(f64, logits(b, i)), largest = cast(f64, most(b));
        const Expr share =
            select(x == largest, make_const(f64, 1), exp((x - largest) / temperature(0)));
        return select(in_k(b, i), cast(i64, floor(share * make_const(f64, kParts))), number(0));
      },
      "weights", "draw", where);
  const OfToken weight = [&](const Expr& b, const Expr& i) { return weights(b, i); };
  const OfToken any = [&](const Expr& b, const Expr& i) { return weights(b, i) > number(0); };
  const Tensor all = Selection(logits, any, weight, {}, where).total(weight);
  const Tensor of_p = compute(
      {batch},
      [&](Axis b) {
        const Expr wanted = cast(i64, ceil(limits.top_p(0) * cast(f64, all(b))));
        return heddle::min(wanted, all(b));
      },
      "top_p", "draw", where);
  const OfToken in_p = Selection(logits, any, weight, of_p, where).run();
  return compute(
      logits.shape(),
      [&](Axis b, Axis i) {
        const Expr whole = limits.top_p(0) >= make_const(f64, 1);
        return select(whole, in_k(b, i), in_p(b, i));
      },
      "kept", "draw", where);
}

}  // namespace heddle::generate
