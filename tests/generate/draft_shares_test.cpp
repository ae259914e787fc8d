// Drafts that were drawn with probabilities of their own: tokens are drawn of those of the model all the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "generate/draws.h"
#include "generate/toy_splits.h"
#include "heddle/generate/generation.h"

namespace heddle::testing {
namespace {

using Lists = std::vector<std::vector<int64_t>>;

/// Shares of tokens, which sum to 1.
std::vector<float> random_shares(Rng& rng) {
  std::vector<float> shares;
  float sum = 0;
  for (int64_t i = 0; i < kTokens; ++i) {
    shares.push_back(static_cast<float>(rng.chance(0.3) ? 0 : rng.uniform_real()));
    sum += shares.back();
  }
  if (sum == 0) shares[0] = sum = 1;
  for (float& s : shares) s /= sum;
  return shares;
}

/// A token of these probabilities.
int64_t drawn(const std::vector<float>& shares, Rng& rng) {
  double left = rng.uniform_real();
  for (int64_t i = 0; i < kTokens; ++i) {
    left -= static_cast<double>(shares[static_cast<size_t>(i)]);
    if (left < 0 && shares[static_cast<size_t>(i)] > 0) return i;
  }
  return std::distance(shares.begin(), std::ranges::max_element(shares));
}

// The counts of tokens are those of draws without drafts: chi-squared with 6 degrees of freedom is below 40 but once in
// two million.
TEST(DraftShares, OfOtherProbabilitiesLeaveThoseOfTheModel) {
  constexpr int kDraws = 20000;
  Rng rng(11);
  for (const Sampling& how : draws()) {
    std::vector<float> logits;
    for (int64_t i = 0; i < kTokens; ++i)
      logits.push_back(static_cast<float>(rng.uniform_real() * 4 - 2));
    const std::vector<float> shares = random_shares(rng);
    std::vector<double> counts(kTokens), wanted(kTokens);
    int taken = 0;
    for (int n = 0; n < kDraws; ++n) {
      const int64_t drafted = drawn(shares, rng);
      const int64_t token = accept_or_draw(logits, drafted, shares, how, static_cast<uint64_t>(n));
      ++counts[static_cast<size_t>(token)];
      taken += token == drafted;
      ++wanted[static_cast<size_t>(sample(logits, how, static_cast<uint64_t>(n) + 1000000))];
    }
    double chi = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const double more = counts[i] - wanted[i];
      if (wanted[i] > 0) chi += more * more / (2 * wanted[i]);
      EXPECT_TRUE(wanted[i] > 0 || counts[i] == 0) << i;
    }
    EXPECT_LT(chi, 40) << "seed " << how.seed;
    EXPECT_TRUE(how.temperature == 0 || taken > 0);
  }
}

// A draft with the probabilities of the model is always taken.
TEST(DraftShares, OfTheModelItselfAreTaken) {
  const std::vector<float> logits = {0.5F, -1, 2, 0, 1.5F, -3, 0.25F};
  std::vector<float> shares;
  double sum = 0;
  for (const float x : logits) sum += std::exp(static_cast<double>(x) / 1.5);
  for (const float x : logits)
    shares.push_back(static_cast<float>(std::exp(static_cast<double>(x) / 1.5) / sum));
  for (int64_t drafted = 0; drafted < kTokens; ++drafted) {
    int taken = 0;
    for (uint64_t n = 0; n < 100; ++n)
      taken += accept_or_draw(logits, drafted, shares, {.temperature = 1.5}, n) == drafted;
    EXPECT_GE(taken, 99);
  }
}

TEST(DraftShares, GoThroughAGeneration) {
  const ModelFolder folder("draft_shares");
  Decoder decoder =
      decoder_of(import_it(decoder_file(folder, random_weights(16, 0.6), ToyMask::Values),
                           {.capacity = 24, .rows = 6, .batch = 1}));
  Rng rng(2);
  for (int round = 0; round < 20; ++round) {
    Generation words(decoder, {{1, 2}}, {.temperature = 1, .seed = static_cast<uint64_t>(round)},
                     {.most = 12});
    int64_t all = std::ssize(words.next());
    for (;;) {
      Draft draft;
      for (int n = 0; n < 3; ++n) {
        draft.shares.push_back(random_shares(rng));
        draft.tokens.push_back(drawn(draft.shares.back(), rng));
      }
      const Lists next = words.next({draft});
      if (next.empty()) break;
      all += std::ssize(next[0]);
    }
    EXPECT_EQ(all, 12);
    EXPECT_EQ(decoder.tokens(0), 13);
  }
}

}  // namespace
}  // namespace heddle::testing
