#include "dag/rewrites/tf32_parts.h"

#include <cmath>

namespace heddle::tf32 {
namespace {

constexpr int64_t kParts = 3;

}  // namespace

int64_t depth_of_parts(int64_t depth, int64_t multiple) {
  return kParts * ((depth + multiple - 1) / multiple * multiple);
}

Expr term_at(const Expr& q) { return floordiv(q, kParts * kRun) * kRun + floormod(q, kRun); }

Expr part_at(const Expr& q, const Expr& value, Side side) {
  const Expr part = floordiv(floormod(q, kParts * kRun), kRun);
  const Expr high = round_tf32(value);
  return select(part == Expr(side == Side::Left ? int64_t{2} : int64_t{1}),
                round_tf32(value - high), high);
}

// The root mean square of a sum of K products of numbers of the size 1: in f32, whose partial sums
// grow as the root of their number, 0.15 * 2^-23 * K; of parts 1.2 * 2^-23 * sqrt(K), and an eighth
// of the former for the sums of tiles.
double error_growth(double terms) { return std::sqrt(1 + 64 / std::max(1.0, terms)); }

}  // namespace heddle::tf32
