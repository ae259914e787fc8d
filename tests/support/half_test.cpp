#include "support/numbers/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace heddle {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

TEST(Half, EveryPatternSurvivesTheRoundTrip) {
  for (int bits = 0; bits < 65536; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = half_to_float(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(half_to_float(float_to_half(value))));
    } else {
      ASSERT_EQ(float_to_half(value), half) << bits;
    }
    const float brain = bfloat16_to_float(half);
    if (std::isnan(brain)) {
      EXPECT_TRUE(std::isnan(bfloat16_to_float(float_to_bfloat16(brain))));
    } else {
      ASSERT_EQ(float_to_bfloat16(brain), half) << bits;
      ASSERT_EQ(double_to_bfloat16(brain), half) << bits;
    }
  }
}

TEST(Half, RoundsToNearestEven) {
  EXPECT_EQ(half_to_float(float_to_half(1.0f + 0x1p-11f)), 1.0f);  // tie to even
  EXPECT_EQ(half_to_float(float_to_half(1.0f + 3 * 0x1p-11f)), 1.0f + 0x1p-9f);
  EXPECT_EQ(half_to_float(float_to_half(65519.0f)), 65504.0f);
  EXPECT_EQ(half_to_float(float_to_half(65520.0f)), kInf);
  EXPECT_EQ(half_to_float(float_to_half(0x1p-25f)), 0.0f);  // half the least subnormal
  EXPECT_EQ(half_to_float(float_to_half(0x1.8p-25f)), 0x1p-24f);
  EXPECT_EQ(half_to_float(float_to_half(-kInf)), -kInf);
  EXPECT_TRUE(std::signbit(half_to_float(float_to_half(-0.0f))));
  EXPECT_EQ(bfloat16_to_float(float_to_bfloat16(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(bfloat16_to_float(float_to_bfloat16(std::numeric_limits<float>::max())), kInf);
}

TEST(Half, DoublesAreRoundedOnce) {
  // Just above a tie: through float, the tie would be hit exactly and go to even, downwards.
  const double above = 1.0 + 0x1p-11 + 0x1p-40;
  EXPECT_EQ(half_to_float(double_to_half(above)), 1.0f + 0x1p-10f);
}

}  // namespace
}  // namespace heddle
