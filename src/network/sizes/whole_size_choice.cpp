#include "network/sizes/whole_size_choice.h"

#include <cmath>

#include "runtime/race/clearly_faster.h"

namespace heddle::network {
namespace {

constexpr double kNoise = 0.01;  // a share of the time of a call

/// How much longer rival `r` takes than rival 0: the logarithm of the ratio.
double loss(const std::vector<std::vector<double>>& rivals, size_t r) {
  return std::log(median_of(rivals[r]) / median_of(rivals[0]));
}

}  // namespace

std::vector<bool> not_faster_at(const WholeCalls& calls, size_t r) {
  std::vector<bool> out;
  for (const auto& rivals : calls) out.push_back(loss(rivals, r) > -kNoise);
  return out;
}

size_t best_rival(const WholeCalls& calls, const std::vector<double>& weights) {
  double weight = 0;
  for (const double w : weights) weight += w;
  size_t best = 0;
  double least = -kNoise * weight;
  for (size_t r = 1; !calls.empty() && r < calls[0].size(); ++r) {
    double sum = 0;
    for (size_t p = 0; p < calls.size(); ++p) sum += weights[p] * loss(calls[p], r);
    if (sum >= least) continue;
    least = sum;
    best = r;
  }
  return best;
}

}  // namespace heddle::network
