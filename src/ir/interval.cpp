#include "ir/interval.h"

#include "ir/fold.h"

namespace heddle {
namespace {

constexpr int64_t kNeg = Interval::kNegInf, kPos = Interval::kPosInf;

int64_t add_bound(int64_t a, int64_t b, int64_t infinity) {
  if (a == infinity || b == infinity) return infinity;
  int64_t sum;
  return __builtin_add_overflow(a, b, &sum) ? infinity : sum;
}

int64_t multiply_bound(int64_t a, int64_t k, int64_t infinity) {
  if (a == kNeg || a == kPos) return infinity;
  int64_t product;
  return __builtin_mul_overflow(a, k, &product) ? infinity : product;
}

}  // namespace

Interval add(Interval a, Interval b) {
  return {add_bound(a.min, b.min, kNeg), add_bound(a.max, b.max, kPos)};
}

Interval negate(Interval a) { return multiply(a, -1); }

Interval multiply(Interval a, int64_t k) {
  if (k == 0) return {0, 0};
  if (k < 0) std::swap(a.min, a.max);
  return {multiply_bound(a.min, k, kNeg), multiply_bound(a.max, k, kPos)};
}

Interval multiply(Interval a, Interval b) {
  if (a.is_point()) return multiply(b, a.min);
  if (b.is_point()) return multiply(a, b.min);
  if (!a.bounded() || !b.bounded()) {
    if (a.min >= 0 && b.min >= 0) return {multiply_bound(a.min, b.min, kNeg), kPos};
    return {};
  }
  Interval r{kPos, kNeg};
  for (const int64_t x : {a.min, a.max}) {
    for (const int64_t y : {b.min, b.max}) {
      int64_t product;
      if (__builtin_mul_overflow(x, y, &product)) return {};
      r = join(r, {product, product});
    }
  }
  return r;
}

Interval floor_div(Interval a, Interval b) {
  if (b.min <= 0) return {};
  Interval r;
  if (a.min >= 0) {
    r.min = b.max == kPos ? 0 : a.min / b.max;
  } else if (a.min != kNeg) {
    r.min = floor_div(a.min, b.min);
  }
  if (a.max < 0) {
    r.max = b.max == kPos ? -1 : floor_div(a.max, b.max);
  } else if (a.max != kPos) {
    r.max = a.max / b.min;
  }
  return r;
}

Interval floor_mod(Interval a, Interval b) {
  if (b.min <= 0) return {};
  if (a.min >= 0 && a.max < b.min) return a;
  if (b.is_point() && a.bounded() && floor_div(a.min, b.min) == floor_div(a.max, b.min)) {
    return {floor_mod(a.min, b.min), floor_mod(a.max, b.min)};
  }
  Interval r{0, b.max == kPos ? kPos : b.max - 1};
  if (a.min >= 0) r.max = std::min(r.max, a.max);
  return r;
}

Interval trunc_div(Interval a, Interval b) {
  if (b.min <= 0) return {};
  Interval r;
  if (a.min >= 0) {
    r.min = b.max == kPos ? 0 : a.min / b.max;
  } else if (a.min != kNeg) {
    r.min = a.min / b.min;
  }
  if (a.max <= 0) {
    r.max = b.max == kPos ? 0 : a.max / b.max;
  } else if (a.max != kPos) {
    r.max = a.max / b.min;
  }
  return r;
}

Interval trunc_mod(Interval a, Interval b) {
  if (b.min <= 0) return {};
  if (a.min > -b.min && a.max < b.min) return a;
  const int64_t most = b.max == kPos ? kPos : b.max - 1;
  Interval r{-most, most};
  if (most == kPos) r.min = kNeg;
  if (a.min >= 0) r.min = 0;
  if (a.max <= 0) r.max = 0;
  if (a.min < 0) r.min = std::max(r.min, a.min);
  if (a.max > 0) r.max = std::min(r.max, a.max);
  return r;
}

Interval range_of_type(DataType t) {
  if (t.is_bool()) return {0, 1};
  if (t.is_int() && t.bits < 64) {
    const int64_t half = int64_t{1} << (t.bits - 1);
    return {-half, half - 1};
  }
  if (t.is_uint()) return {0, t.bits < 64 ? (int64_t{1} << t.bits) - 1 : kPos};
  return {};
}

}  // namespace heddle
