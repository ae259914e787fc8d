#include "dag/rewrites/winograd_transforms.h"

#include <algorithm>
#include <cmath>

namespace heddle::winograd {
namespace {

// The formulas are written out, so that shared sums are computed once.

// m = 4 takes the points 0, a, -a, b, -b and infinity. Lavin and Gray's a = 1, b = 2 save some
// multiplications, which cost nothing here, and make errors four times as large. These points are
// the best short binary fractions by the measure of growth_of_dimension (on the choice of points:
// Barabasz et al. 2018, "Error analysis and improving the accuracy of Winograd convolution",
// arXiv:1803.10986).
constexpr double kA = 0.625, kB = 1.5, kA2 = kA * kA, kB2 = kB * kB;

}  // namespace

Terms image_transform(int64_t m, const Terms& d) {
  if (m == 2) return {d[0] - d[2], d[1] + d[2], d[2] - d[1], d[1] - d[3]};
  const Expr even_a = d[4] - d[2] * kB2, odd_a = (d[3] - d[1] * kB2) * kA;
  const Expr even_b = d[4] - d[2] * kA2, odd_b = (d[3] - d[1] * kA2) * kB;
  return {d[0] * (kA2 * kB2) - d[2] * (kA2 + kB2) + d[4],
          even_a + odd_a,
          even_a - odd_a,
          even_b + odd_b,
          even_b - odd_b,
          d[1] * (kA2 * kB2) - d[3] * (kA2 + kB2) + d[5]};
}

Terms weight_transform(int64_t m, const Terms& g) {
  if (m == 2) {
    const Expr ends = g[0] + g[2];
    return {g[0], (ends + g[1]) * 0.5, (ends - g[1]) * 0.5, g[2]};
  }
  constexpr double na = 2 * kA2 * (kA2 - kB2), nb = 2 * kB2 * (kB2 - kA2);
  const Expr ends_a = g[0] * (1 / na) + g[2] * (kA2 / na), middle_a = g[1] * (kA / na);
  const Expr ends_b = g[0] * (1 / nb) + g[2] * (kB2 / nb), middle_b = g[1] * (kB / nb);
  return {g[0] * (1 / (kA2 * kB2)), ends_a + middle_a, ends_a - middle_a,
          ends_b + middle_b,        ends_b - middle_b, g[2]};
}

Terms result_transform(int64_t m, const Terms& p) {
  const Expr sum_a = p[1] + p[2], difference_a = p[1] - p[2];
  if (m == 2) return {p[0] + sum_a, difference_a - p[3]};
  const Expr sum_b = p[3] + p[4], difference_b = p[3] - p[4];
  return {p[0] + sum_a + sum_b, difference_a * kA + difference_b * kB, sum_a * kA2 + sum_b * kB2,
          difference_a * (kA2 * kA) + difference_b * (kB2 * kB) + p[5]};
}

Expr choose(const Expr& index, const Terms& terms) {
  Expr out = terms.back();
  for (std::size_t i = terms.size() - 1; i-- > 0;)
    out = select(index == Expr(static_cast<int64_t>(i)), terms[i], out);
  return out;
}

double growth_of_dimension(int64_t m) {
  if (m == 2) return std::sqrt((2 + 2 * 0.75 * 2) / 3);  // first row: 1 * 2, then 3/4 * 2 twice
  constexpr double na = 2 * kA2 * (kA2 - kB2), nb = 2 * kB2 * (kB2 - kA2);
  const auto ways = [](double x, double other2, double n) {  // paths through the points x and -x
    const double g = (1 + x * x + x * x * x * x) / (n * n);
    const double b = (x * x + 1) * (other2 * other2 + 1);
    return 2 * g * b;
  };
  const double ends = kA2 * kB2 * kA2 * kB2 + (kA2 + kB2) * (kA2 + kB2) + 1;
  const double first = ends / (kA2 * kB2 * kA2 * kB2) + ways(kA, kB2, na) + ways(kB, kA2, nb);
  const double last =
      ends + kA2 * kA2 * kA2 * ways(kA, kB2, na) + kB2 * kB2 * kB2 * ways(kB, kA2, nb);
  return std::sqrt(std::max(first, last) / 3);
}

}  // namespace heddle::winograd
