// Ranges of values, scales, and weights as integers.
#include <gtest/gtest.h>

#include <cmath>

#include "quantize/ranges.h"
#include "quantize/weights.h"

namespace heddle::quantize {
namespace {

std::pair<double, double> range_of(const NDArray& values, const QuantizeOptions& options) {
  SeenValues seen;
  seen.widen(values, "x");
  seen.count(values);
  return seen.range(options);
}

TEST(Ranges, MinMaxIsOfAllValuesAndOfZero) {
  const NDArray values = NDArray::from(std::vector<float>{3, 5, 4});
  EXPECT_EQ(range_of(values, {}), (std::pair<double, double>{0, 5}));
  SeenValues seen;
  seen.widen(values, "x");
  seen.widen(NDArray::from(std::vector<float>{-2}), "x");
  EXPECT_EQ(seen.range({}), (std::pair<double, double>{-2, 5}));
}

TEST(Ranges, PercentileLeavesOutliersOut) {
  NDArray values = NDArray::random({10000}, f32, 1);  // in [-1, 1)
  values.set(17, 50);
  const auto [low, high] =
      range_of(values, {.method = RangeMethod::Percentile, .percentile = 99.9});
  EXPECT_NEAR(high, 1, 0.05);
  EXPECT_NEAR(low, -1, 0.05);
  EXPECT_EQ(range_of(values, {.method = RangeMethod::Percentile, .percentile = 100}).second, 50);
}

// The divergence of a clipped range is less than that of a wide one only where few values are far.
TEST(Ranges, EntropyClipsATailAndKeepsAFlatDistribution) {
  NDArray flat = NDArray::random({50000}, f32, 2);
  EXPECT_GT(range_of(flat, {.method = RangeMethod::Entropy}).second, 0.95);
  NDArray tail = flat.copy();
  for (int64_t i = 0; i < 5; ++i) tail.set(i * 1000, 30 + static_cast<double>(i));
  const double end = range_of(tail, {.method = RangeMethod::Entropy}).second;
  EXPECT_LT(end, 20);
  EXPECT_GT(end, 0.9);
  // Zeros do not count, as those behind a Relu.
  NDArray sparse = NDArray::zeros({50000}, f32);
  EXPECT_EQ(range_of(sparse, {.method = RangeMethod::Entropy}).second, 0);
}

TEST(Ranges, ValuesThatAreNotFiniteAreRefused) {
  SeenValues seen;
  EXPECT_THROW(seen.widen(NDArray::from(std::vector<float>{0, INFINITY}), "x"), Error);
  EXPECT_THROW(seen.widen(NDArray::from(std::vector<float>{NAN}), "x"), Error);
}

// Within the range no value is further than half a step from what its byte stands for, beyond it
// the end of the range does, and 0 is exact.
TEST(Scales, RoundToTheNearestStep) {
  for (const DataType type : {u8, i8}) {
    for (const auto& range : std::vector<std::pair<double, double>>{
             {0, 6}, {-1, 3}, {-5, 0}, {0, 1e-20}, {-3e30, 1e30}, {0, 0}}) {
      const Scale s = scale_of(range, type);
      EXPECT_GT(s.scale, 0);
      EXPECT_EQ(s.rounded(0), 0);
      const double width = range.second - range.first;
      for (int i = 0; i <= 1000; ++i) {
        const double x = range.first + width * i / 1000;
        // The zero point is rounded, which moves the ends by half a step.
        EXPECT_LE(std::abs(s.rounded(x) - x), 1.01 * s.scale) << x << " of " << range.second;
      }
      const double most = type == i8 ? std::max(-range.first, range.second) : range.second;
      EXPECT_LE(s.rounded(range.second * 100), most + s.scale);
      EXPECT_TRUE(type == u8 || s.zero == 0);
    }
  }
}

TEST(Weights, EachChannelHasItsOwnScale) {
  for (const int axis : {0, 1}) {
    NDArray w = NDArray::random({6, 5, 3}, f32, 3);
    for (int64_t i = 0; i < w.size(); ++i) {
      const int64_t channel = axis == 0 ? i / 15 : i / 3 % 5;
      w.set(i, w.get(i) * std::pow(10.0, static_cast<double>(channel)) * (channel == 2 ? 0 : 1));
    }
    const QuantizedArray q = quantized_weights(w, axis);
    ASSERT_EQ(q.scales.shape(), Extents{w.extent(axis)});
    for (int64_t i = 0; i < w.size(); ++i) {
      const int64_t channel = axis == 0 ? i / 15 : i / 3 % 5;
      const double scale = q.scales.get(channel), v = q.integers.get(i);
      EXPECT_LE(std::abs(v), 127);
      EXPECT_LE(std::abs(v * scale - w.get(i)), 0.501 * scale);
    }
  }
  const QuantizedArray one = quantized_weights(NDArray::random({4, 4}, f32, 1), std::nullopt);
  EXPECT_EQ(one.scales.rank(), 0);
}

TEST(Weights, AChannelOfZerosKeepsItsBias) {
  for (const double others : {0.0, 0.5}) {
    NDArray w = NDArray::full({3, 4}, f32, others);
    for (int64_t i = 4; i < 8; ++i) w.set(i, 0);
    const QuantizedArray q = quantized_weights(w, 0);
    const std::optional<QuantizedArray> bias =
        quantized_bias(NDArray::full({3}, f32, 0.4), q.scales, 1.0F);
    ASSERT_TRUE(bias);
    EXPECT_NEAR(bias->integers.get(1) * bias->scales.get(1), 0.4, 2e-3) << others;
  }
}

TEST(Weights, ABiasThatDoesNotFitIsLeft) {
  const NDArray scales = NDArray::full({2}, f32, 1e-6);
  const NDArray bias = NDArray::from(std::vector<float>{0.25, -3});
  const std::optional<QuantizedArray> q = quantized_bias(bias, scales, 0.01F);
  ASSERT_TRUE(q);
  for (int64_t i = 0; i < 2; ++i)
    EXPECT_NEAR(q->integers.get(i) * q->scales.get(i), bias.get(i), 1e-6);
  EXPECT_FALSE(quantized_bias(NDArray::full({2}, f32, 1e6), scales, 0.01F));
}

}  // namespace
}  // namespace heddle::quantize
