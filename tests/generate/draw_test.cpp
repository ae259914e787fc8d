// The draw as a declaration takes the tokens that sample() takes, on every target.
#include <cmath>
#include <limits>

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
