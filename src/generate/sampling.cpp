#include "heddle/generate/sampling.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "generate/kept.h"
#include "heddle/support/error.h"
#include "support/hashing/hash.h"

namespace heddle {
namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15u;

/// The upper 52 bits of output `i` of a stream.
uint64_t bits_of(uint64_t stream, int64_t i) {
  return mix64(stream - kStep + static_cast<uint64_t>(i) * kStep) >> 12;
}

/// The middle of the interval that these bits name.
double fraction(uint64_t bits) { return (static_cast<double>(bits) + 0.5) * 0x1p-52; }

double noise(uint64_t bits) { return -std::log(-std::log(fraction(bits))); }

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

/// The level (generate/kept.h) of a logit; -1 of one that is no number.
int64_t level_of(double logit, double most, double temperature) {
  if (std::isnan(logit)) return -1;
  if (logit == most) return 0;
  const double steps = (most - logit) * (generate::kSteps / temperature);
  return steps < generate::kLevels - 1 ? static_cast<int64_t>(std::floor(steps))
                                       : generate::kLevels - 1;
}

/// The least level up to which `of` sums to what is wanted; the last one where it never does.
template <class Of>
int64_t limit_of(int64_t wanted, Of of) {
  int64_t level = 0;
  for (int64_t sum = of(0); sum < wanted && level + 1 < generate::kLevels;) sum += of(++level);
  return level;
}

/// The levels of the logits, and the last one that top_k and top_p leave.
std::pair<std::vector<int64_t>, int64_t> kept(std::span<const float> logits, const Sampling& how) {
  const double most = largest_of(logits);
  std::vector<int64_t> levels, counts(generate::kLevels);
  levels.reserve(logits.size());
  for (const float x : logits) {
    levels.push_back(level_of(x, most, how.temperature));
    if (levels.back() >= 0) ++counts[static_cast<size_t>(levels.back())];
  }
  const auto count = [&](int64_t level) { return counts[static_cast<size_t>(level)]; };
  const int64_t of_k = how.top_k == 0 ? generate::kLevels - 1 : limit_of(how.top_k, count);
  if (how.top_p == 1) return {std::move(levels), of_k};
  const auto mass = [&](int64_t level) {
    if (level > of_k || count(level) == 0) return int64_t{0};
    const double share = std::exp(static_cast<double>(level) * (-1 / generate::kSteps));
    return count(level) * static_cast<int64_t>(std::floor(share * generate::kParts));
  };
  int64_t all = 0;
  for (int64_t level = 0; level <= of_k; ++level) all += mass(level);
  const double wanted = std::ceil(how.top_p * static_cast<double>(all));
  return {std::move(levels), std::min(of_k, limit_of(static_cast<int64_t>(wanted), mass))};
}

/// `visit` of each token that may be drawn, and its logit.
template <class Visit>
void for_kept(std::span<const float> logits, const Sampling& how, Visit visit) {
  if (how.top_k == 0 && how.top_p == 1) {
    for (size_t i = 0; i < logits.size(); ++i)
      if (!std::isnan(logits[i])) visit(static_cast<int64_t>(i), logits[i]);
    return;
  }
  const auto [levels, last] = kept(logits, how);
  for (size_t i = 0; i < logits.size(); ++i)
    if (levels[i] >= 0 && levels[i] <= last) visit(static_cast<int64_t>(i), logits[i]);
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

void check_shares(int64_t vocabulary, int64_t drafted, std::span<const float> shares) {
  if (std::ssize(shares) != vocabulary || drafted < 0 || drafted >= vocabulary)
    throw_user_error("a draft of token " + std::to_string(drafted) + " has " +
                         std::to_string(shares.size()) + " probabilities, and the vocabulary " +
                         std::to_string(vocabulary) + " tokens",
                     {}, "give a probability for each token");
  double sum = 0;
  for (size_t i = 0; i < shares.size(); ++i) {
    const double share = shares[i];
    if (!(share >= 0 && std::isfinite(share)))
      throw_user_error(
          "a draft gives token " + std::to_string(i) + " a probability of " + std::to_string(share),
          {}, "probabilities are numbers of at least 0 and sum to 1");
    sum += share;
  }
  if (!(std::abs(sum - 1) <= 1e-3))
    throw_user_error("the probabilities of a draft sum to " + std::to_string(sum), {},
                     "they sum to 1: give softmax(logits / temperature), not logits or weights");
  if (const double share = shares[static_cast<size_t>(drafted)]; !(share > 0))
    throw_user_error("token " + std::to_string(drafted) + " is drafted with a probability of " +
                         std::to_string(share),
                     {}, "draft tokens that are drawn of these probabilities");
}

uint64_t stream_of(uint64_t seed, uint64_t number) {
  return mix64(mix64(seed - kStep) + number * kStep);
}

int64_t sample(std::span<const float> logits, const Sampling& how, uint64_t number) {
  check_sampling(how);
  int64_t token = -1;
  if (how.temperature == 0 || how.top_k == 1) {
    token = place_of_largest(logits);
  } else {
    Race race(how.temperature, stream_of(how.seed, number));
    for_kept(logits, how, [&](int64_t i, double x) { race.offer(i, x); });
    token = race.token();
  }
  if (token < 0) throw_runtime_error("no logit of the model is a number");
  return token;
}

int64_t accept_or_draw(std::span<const float> logits, int64_t drafted,
                       std::span<const float> shares, const Sampling& how, uint64_t number) {
  check_shares(std::ssize(logits), drafted, shares);
  const int64_t drawn = sample(logits, how, number);
  if (how.temperature == 0 || how.top_k == 1 || std::isinf(logits[static_cast<size_t>(drawn)]))
    return drawn;  // has all of the probability
  // The drafts may be draws of `number` themselves.
  const uint64_t stream = mix64(stream_of(how.seed, number) ^ kStep);
  const double most = largest_of(logits), share = shares[static_cast<size_t>(drafted)];
  double sum = 0, of_drafted = 0;
  for_kept(logits, how, [&](int64_t i, double x) {
    const double weight = std::exp((x - most) / how.temperature);
    sum += weight;
    if (i == drafted) of_drafted = weight;
  });
  if (fraction(bits_of(stream, -1)) * share * sum < of_drafted) return drafted;
  Race race(1, stream);
  for_kept(logits, how, [&](int64_t i, double x) {
    const double more = std::exp((x - most) / how.temperature) / sum -
                        static_cast<double>(shares[static_cast<size_t>(i)]);
    if (more > 0) race.offer(i, std::log(more));
  });
  // Nothing is left of probabilities that differ by rounding alone.
  return race.token() < 0 ? drawn : race.token();
}

}  // namespace heddle
