#include "dag/rewrites/tf32_parts.h"

#include <cmath>

namespace heddle::tf32 {
namespace {

constexpr int64_t kParts = 3;
constexpr double kLargest = 0x1.fffffep127;     // of f32
constexpr double kLargestHigh = 0x1.ffcp127;    // of tf32
constexpr double kLargestSum = 0x1.fffff8p127;  // of two parts that do not overflow

Expr clamped(const Expr& value, double most) {
  return min(max(value, make_const(f32, -most)), make_const(f32, most));
}

}  // namespace

int64_t depth_of_parts(int64_t depth, int64_t multiple) {
  return kParts * ((depth + multiple - 1) / multiple * multiple);
}

Expr term_at(const Expr& q) { return floordiv(q, kParts * kRun) * kRun + floormod(q, kRun); }

Expr part_at(const Expr& q, const Expr& value, Side side) {
  const Expr part = floordiv(floormod(q, kParts * kRun), kRun);
  const Expr is_low = part == Expr(side == Side::Left ? int64_t{2} : int64_t{1});
  // What is rounded must not become infinite, nor the sum of the parts. Of an infinite element the
  // low part is infinite, and the high one is 1: a larger one times the low part of the other factor
  // could be infinite too, with the other sign.
  const Expr high = round_tf32(clamped(value, kLargestHigh));
  return select(abs(value) <= make_const(f32, kLargest),
                select(is_low, round_tf32(clamped(value, kLargestSum) - high), high),
                select(is_low, value, clamped(value, 1)));
}

// The root mean square of a sum of K products of numbers of the size 1: in f32, whose partial sums
// grow as the root of their number, 0.15 * 2^-23 * K; of parts 1.2 * 2^-23 * sqrt(K), and an eighth
// of the former for the sums of tiles.
double error_growth(double terms) { return std::sqrt(1 + 64 / std::max(1.0, terms)); }

}  // namespace heddle::tf32
