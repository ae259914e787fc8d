#include "heddle/generate/sampling.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "heddle/support/error.h"
#include "support/hashing/hash.h"

namespace heddle {
namespace {

/// A number in [0, 1): the one at this place of a sequence of splitmix64, whose steps mix64 makes.
double uniform(uint64_t seed, uint64_t number) {
  constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;
  return static_cast<double>(mix64(mix64(seed - kStep) + number * kStep) >> 11) * 0x1p-53;
}

/// Positions of the logits that are numbers, at most `most` of the largest, the largest first.
std::vector<int64_t> largest(std::span<const float> logits, int64_t most) {
  std::vector<int64_t> order;
  for (int64_t i = 0; i < std::ssize(logits); ++i) {
    if (!std::isnan(logits[static_cast<size_t>(i)])) order.push_back(i);
  }
  const auto before = [&](int64_t a, int64_t b) {
    const float x = logits[static_cast<size_t>(a)], y = logits[static_cast<size_t>(b)];
    return x > y || (x == y && a < b);
  };
  const int64_t kept = most > 0 ? std::min(most, std::ssize(order)) : std::ssize(order);
  std::partial_sort(order.begin(), order.begin() + kept, order.end(), before);
  order.resize(static_cast<size_t>(kept));
  return order;
}

}  // namespace

void check_sampling(const Sampling& how) {
  if (!(how.temperature >= 0 && std::isfinite(how.temperature)))
    throw_user_error("the temperature is " + std::to_string(how.temperature), {},
                     "it is a number of at least 0, and 0 takes the largest logit");
  if (how.top_k < 0)
    throw_user_error("top_k is " + std::to_string(how.top_k), {}, "0 draws of all tokens");
  if (!(how.top_p > 0 && how.top_p <= 1))
    throw_user_error("top_p is " + std::to_string(how.top_p), {}, "it is in (0, 1]");
}

int64_t sample(std::span<const float> logits, const Sampling& how, uint64_t number) {
  check_sampling(how);
  const bool greedy = how.temperature == 0;
  const std::vector<int64_t> order = largest(logits, greedy ? 1 : how.top_k);
  if (order.empty()) throw_runtime_error("no logit of the model is a number");
  if (greedy) return order[0];
  const double most = logits[static_cast<size_t>(order[0])];
  std::vector<double> weights;
  for (const int64_t i : order) {
    const double x = logits[static_cast<size_t>(i)];
    weights.push_back(x == most ? 1 : std::exp((x - most) / how.temperature));
  }
  double mass = std::accumulate(weights.begin(), weights.end(), 0.0);
  const double wanted = how.top_p * mass;
  size_t kept = weights.size();
  if (how.top_p < 1) {
    mass = 0;
    for (kept = 0; kept < weights.size() && mass < wanted; ++kept) mass += weights[kept];
  }
  double left = uniform(how.seed, number) * mass;
  size_t last = 0;  // rounding may leave something after the last weight
  for (size_t i = 0; i < kept; ++i) {
    if (weights[i] > 0) last = i;
    left -= weights[i];
    if (left < 0) break;
  }
  return order[last];
}

}  // namespace heddle
