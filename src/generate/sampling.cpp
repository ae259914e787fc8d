#include "heddle/generate/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "heddle/support/error.h"
#include "support/hashing/hash.h"

namespace heddle {
namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;

/// The upper 52 bits of output `i` of a stream.
uint64_t bits_of(uint64_t stream, int64_t i) {
  return mix64(stream - kStep + static_cast<uint64_t>(i) * kStep) >> 12;
}

double noise(uint64_t bits) {
  return -std::log(-std::log((static_cast<double>(bits) + 0.5) * 0x1p-52));
}

/// At least the noise of these bits: -log(u) is at least 1 - u.
double most_noise(uint64_t bits) {
  constexpr double kLog2 = 0.6931471805600;  // a little above
  return kLog2 * static_cast<double>(54 - std::bit_width((uint64_t{1} << 52) - bits));
}

/// Of the tokens that are offered, the one with the largest sum of logit and noise.
class Race {
 public:
  Race(double temperature, uint64_t stream) : temperature_(temperature), stream_(stream) {}

  void offer(int64_t token, double logit) {
    const uint64_t bits = bits_of(stream_, token);
    if (token_ >= 0 && logit + temperature_ * most_noise(bits) < score_) return;
    const double score = logit + temperature_ * noise(bits);
    if (token_ >= 0 && (score < score_ || (score == score_ && token > token_))) return;
    token_ = token;
    score_ = score;
  }
  int64_t token() const { return token_; }  ///< -1 where none was offered

 private:
  double temperature_, score_ = 0;
  uint64_t stream_;
  int64_t token_ = -1;
};

/// Positions of the logits that are numbers, at most `most` of the largest, the largest first.
std::vector<int64_t> largest(std::span<const float> logits, int64_t most) {
  std::vector<int64_t> order;
  order.reserve(logits.size());
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

/// The largest of the numbers among logits; -inf where none is one. The maximum is taken in lanes.
float largest_of(std::span<const float> logits) {
  using Lanes [[gnu::vector_size(64)]] = float;
  constexpr size_t kLanes = sizeof(Lanes) / sizeof(float);
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  Lanes most = kNone - Lanes{};
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes) {
    Lanes x;
    std::memcpy(&x, &logits[i], sizeof(x));
    most = x > most ? x : most;
  }
  float largest = kNone;
  for (size_t j = 0; j < kLanes; ++j) largest = std::max(largest, most[j]);
  for (; i < logits.size(); ++i) largest = logits[i] > largest ? logits[i] : largest;
  return largest;
}

/// The position of the first of the largest logits that are numbers; -1 where none is.
int64_t place_of_largest(std::span<const float> logits) {
  constexpr size_t kBlock = 1024;
  float most = -std::numeric_limits<float>::infinity();
  std::span<const float> block;
  for (size_t begin = 0; begin < logits.size(); begin += kBlock) {
    const auto here = logits.subspan(begin, std::min(kBlock, logits.size() - begin));
    const float largest = largest_of(here);
    if (!block.empty() && !(largest > most)) continue;
    most = largest;
    block = here;
  }
  // Where all are -inf or no numbers, the first -inf may be in any block.
  if (std::isinf(most) && most < 0) block = logits;
  const auto at = std::find(block.begin(), block.end(), most);
  return at == block.end() ? -1 : &*at - logits.data();
}

/// What top_k and top_p leave.
std::vector<int64_t> kept(std::span<const float> logits, const Sampling& how) {
  std::vector<int64_t> order = largest(logits, how.top_k);
  if (order.empty() || how.top_p == 1) return order;
  const double most = logits[static_cast<size_t>(order[0])];
  std::vector<double> weights;
  for (const int64_t i : order) {
    const double x = logits[static_cast<size_t>(i)];
    weights.push_back(x == most ? 1 : std::exp((x - most) / how.temperature));
  }
  const double wanted = how.top_p * std::accumulate(weights.begin(), weights.end(), 0.0);
  double mass = 0;
  size_t kept = 0;
  for (; kept < weights.size() && mass < wanted; ++kept) mass += weights[kept];
  order.resize(kept);
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

uint64_t stream_of(uint64_t seed, uint64_t number) {
  return mix64(mix64(seed - kStep) + number * kStep);
}

int64_t sample(std::span<const float> logits, const Sampling& how, uint64_t number) {
  check_sampling(how);
  int64_t token = -1;
  if (how.temperature == 0) {
    token = place_of_largest(logits);
  } else {
    Race race(how.temperature, stream_of(how.seed, number));
    if (how.top_k == 0 && how.top_p == 1) {
      for (int64_t i = 0; i < std::ssize(logits); ++i) {
        const float x = logits[static_cast<size_t>(i)];
        if (!std::isnan(x)) race.offer(i, x);
      }
    } else {
      for (const int64_t i : kept(logits, how)) race.offer(i, logits[static_cast<size_t>(i)]);
    }
    token = race.token();
  }
  if (token < 0) throw_runtime_error("no logit of the model is a number");
  return token;
}

}  // namespace heddle
