// The draw as a declaration takes the tokens that sample() takes, on every target.
#include <cmath>
#include <limits>
#include <set>
#include <vector>

#include "heddle/generate/sampling.h"
#include "heddle/support/rng.h"
#include "ops/ops_testing.h"

namespace heddle {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN(),
                kInfinite = std::numeric_limits<float>::infinity();

NDArray random_logits(int64_t batch, int64_t vocabulary, Rng& rng) {
  NDArray logits = NDArray::random({batch, vocabulary}, f32,
                                   static_cast<uint64_t>(rng.uniform_int(1, 1 << 30)), -4, 4);
  for (int64_t i = 0; i < logits.size(); ++i) {
    if (rng.chance(0.1)) logits.set(i, rng.chance(0.5) ? kNan : -kInfinite);
    if (rng.chance(0.2)) logits.set(i, std::round(logits.get(i)));  // equal ones
  }
  return logits;
}

/// Draws `number` and those behind it.
Input streams_of(int64_t batch, uint64_t seed, uint64_t number) {
  NDArray streams = NDArray::zeros({batch}, u64);
  for (int64_t b = 0; b < batch; ++b)
    streams.at<uint64_t>({b}) = stream_of(seed, number + static_cast<uint64_t>(b));
  return input_of(streams, "streams");
}

TEST(Draw, TokensAreThoseOfSample) {
  for (int64_t n = 1; n <= 14; ++n) {
    Rng rng(static_cast<uint64_t>(n));
    const int64_t batch = rng.uniform_int(1, 5), vocabulary = rng.uniform_int(1, 3000);
    const Input logits = input_of(random_logits(batch, vocabulary, rng), "logits");
    const Sampling how{.temperature = n % 3 == 0 ? 0 : 0.2 * static_cast<double>(n % 7 + 1),
                       .seed = static_cast<uint64_t>(n)};
    const Input streams = streams_of(batch, how.seed, 40),
                temperature = input_of(NDArray::from<double>({how.temperature}, {1}), "t");
    for (const WayToRun& way :
         run_every_way(draw(logits, streams, temperature), {logits, streams, temperature})) {
      for (int64_t b = 0; b < batch; ++b) {
        const std::span row(logits.array.data<float>() + b * vocabulary,
                            static_cast<size_t>(vocabulary));
        int64_t want = -1;
        if (std::ranges::any_of(row, [](float x) { return !std::isnan(x); }))
          want = sample(row, how, 40 + static_cast<uint64_t>(b));
        EXPECT_EQ(way.result.get(b), static_cast<double>(want)) << way.name << ", seed " << n;
      }
    }
  }
}

TEST(Draw, LimitsLeaveTheTokensThatSampleLeaves) {
  for (int64_t n = 1; n <= 9; ++n) {
    Rng rng(static_cast<uint64_t>(n));
    const int64_t batch = n == 9 ? 1 : rng.uniform_int(1, 4),
                  vocabulary = n == 9 ? 32000 : rng.uniform_int(1, 700);
    const Input logits = input_of(random_logits(batch, vocabulary, rng), "logits");
    const Sampling how{.temperature = n % 4 == 0 ? 0 : 0.3 * static_cast<double>(n % 5 + 1),
                       .top_k = n % 3 == 0 ? 0
                                : n == 7   ? 1
                                           : rng.uniform_int(1, 40),
                       .top_p = n % 3 == 1 ? 1 : 0.1 * static_cast<double>(rng.uniform_int(1, 9)),
                       .seed = static_cast<uint64_t>(n)};
    const Input streams = streams_of(batch, how.seed, 7),
                temperature = input_of(NDArray::from<double>({how.temperature}, {1}), "t"),
                top_k = input_of(NDArray::from<int64_t>({how.top_k}, {1}), "top_k"),
                top_p = input_of(NDArray::from<double>({how.top_p}, {1}), "top_p");
    for (const WayToRun& way : run_every_way(draw(logits, streams, temperature, {top_k, top_p}),
                                             {logits, streams, temperature, top_k, top_p})) {
      for (int64_t b = 0; b < batch; ++b) {
        const std::span row(logits.array.data<float>() + b * vocabulary,
                            static_cast<size_t>(vocabulary));
        int64_t want = -1;
        if (std::ranges::any_of(row, [](float x) { return !std::isnan(x); }))
          want = sample(row, how, 7 + static_cast<uint64_t>(b));
        EXPECT_EQ(way.result.get(b), static_cast<double>(want)) << way.name << ", seed " << n;
      }
    }
  }
}

/// What sample() says of its limits, by the tokens of many draws.
TEST(Draw, LimitsLeaveTheLargest) {
  const auto drawn = [](const std::vector<float>& logits, const Sampling& how) {
    std::set<int64_t> tokens;
    for (uint64_t n = 0; n < 400; ++n) tokens.insert(sample(logits, how, n));
    return tokens;
  };
  using Tokens = std::set<int64_t>;
  const std::vector<float> logits = {1, 3, kNan, 2, 3, -kInfinite, 2.5F};
  EXPECT_EQ(drawn(logits, {.temperature = 9, .top_k = 3}), (Tokens{1, 4, 6}));
  EXPECT_EQ(drawn(logits, {.temperature = 9, .top_k = 1}), Tokens{1}) << "the first of equal ones";
  EXPECT_EQ(drawn({2, 5, 5, 5, 1}, {.temperature = 1, .top_k = 2}), (Tokens{1, 2, 3}))
      << "equal ones stay together";
  // Of four equal ones and one of half their weight, 4/4.5 = 0.89 are needed for 0.85, and all for 0.9.
  const float half = 5 - std::log(2.0F);
  EXPECT_EQ(drawn({5, 5, half, 5, 5}, {.temperature = 1, .top_p = 0.85}), (Tokens{0, 1, 3, 4}));
  EXPECT_EQ(drawn({5, 5, half, 5, 5}, {.temperature = 1, .top_p = 0.9}), (Tokens{0, 1, 2, 3, 4}));
  // top_p counts what top_k leaves: 1 / 1.5 is enough for 0.6, and 1 / 1.75 would not be.
  const float quarter = 5 - std::log(4.0F);
  EXPECT_EQ(drawn({quarter, half, 5}, {.temperature = 1, .top_k = 2, .top_p = 0.6}), Tokens{2});
  EXPECT_EQ(drawn({quarter, half, 5}, {.temperature = 1, .top_p = 0.6}), (Tokens{1, 2}));
}

TEST(Draw, SpecialLogits) {
  const Input logits =
      input_of(NDArray::from<float>({kNan, kNan, kNan, kNan, -kInfinite, -kInfinite, 1, kInfinite,
                                     kInfinite, -kInfinite, -3, kNan, 2, 7, 7},
                                    {5, 3}),
               "logits");
  const double want[] = {-1, 1, 1, 1, 1};
  const Input streams = streams_of(5, 3, 0);
  for (const double t : {0.0, 1e-3}) {
    const Input temperature = input_of(NDArray::from<double>({t}, {1}), "t");
    for (const WayToRun& way :
         run_every_way(draw(logits, streams, temperature), {logits, streams, temperature})) {
      for (int64_t b = 0; b < 4; ++b) EXPECT_EQ(way.result.get(b), want[b]) << way.name << " " << b;
      if (t == 0) {
        EXPECT_EQ(way.result.get(4), 1) << way.name;
      }
    }
  }
}

TEST(Draw, OtherShapesAndTypesAreErrors) {
  const Tensor logits = placeholder({2, 5}, f32, "logits"), streams = placeholder({2}, u64, "s"),
               t = placeholder({1}, f64, "t");
  EXPECT_THROW(draw(placeholder({5}, f32), streams, t), Error);
  EXPECT_THROW(draw(placeholder({2, 5}, f16), streams, t), Error);
  EXPECT_THROW(draw(logits, placeholder({2}, i64), t), Error);
  EXPECT_THROW(draw(logits, streams, placeholder({1}, f32)), Error);
}

}  // namespace
}  // namespace heddle
