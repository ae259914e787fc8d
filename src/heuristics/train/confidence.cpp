#include "heuristics/train/confidence.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace heddle::learning {
namespace {

/// The probability of the interval from 0 to t, by Simpson's rule over an angle. With t = sqrt(v)
/// tan(u) the density is a power of the cosine, which is smooth and bounded for every t.
double probability_up_to(double t, double freedom) {
  const double end = std::atan(t / std::sqrt(freedom));
  constexpr int kSteps = 400;
  double sum = 0;
  for (int i = 0; i <= kSteps; ++i) {
    const int weight = i == 0 || i == kSteps ? 1 : i % 2 == 1 ? 4 : 2;
    sum += weight * std::pow(std::cos(end * i / kSteps), freedom - 1);
  }
  const double scale = std::exp(std::lgamma((freedom + 1) / 2) - std::lgamma(freedom / 2)) /
                       std::sqrt(std::numbers::pi);
  return scale * sum * end / (3 * kSteps);
}

}  // namespace

double student_quantile(double probability, double freedom) {
  double low = 0, high = 1;
  while (probability_up_to(high, freedom) < probability - 0.5 && high < 1e6) high *= 2;
  for (int i = 0; i < 60; ++i) {
    const double middle = (low + high) / 2;
    (probability_up_to(middle, freedom) < probability - 0.5 ? low : high) = middle;
  }
  return (low + high) / 2;
}

double mean_of(std::span<const double> sample) {
  double sum = 0;
  for (const double x : sample) sum += x;
  return sample.empty() ? 0 : sum / static_cast<double>(sample.size());
}

double squared_deviations(std::span<const double> sample) {
  const double mean = mean_of(sample);
  double sum = 0;
  for (const double x : sample) sum += (x - mean) * (x - mean);
  return sum;
}

double mean_bound(std::span<const double> sample, const VariancePrior& prior, double confidence) {
  const auto n = static_cast<double>(sample.size());
  const double freedom = std::max(1.0, n - 1 + prior.weight);
  const double variance = (squared_deviations(sample) + prior.weight * prior.variance) / freedom;
  return mean_of(sample) + student_quantile(confidence, freedom) * std::sqrt(variance / n);
}

}  // namespace heddle::learning
