#include "support/numbers/float8.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <vector>

#include "heddle/support/dtype.h"

namespace heddle {
namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

// A format as the OFP8 specification defines it: S.EEEE.MMM or S.EEEEE.MM.
struct Format {
  int mantissa, bias;
  float (*widen)(std::uint8_t);
  std::uint8_t (*narrow)(double);
  std::uint8_t (*narrow_float)(float);
  int largest;  // bits
};
const Format kFormats[] = {{3, 7, e4m3_to_float, double_to_e4m3, float_to_e4m3, 0x7e},
                           {2, 15, e5m2_to_float, double_to_e5m2, float_to_e5m2, 0x7b}};

// The value of bits that are a number, by the definition.
double defined(const Format& f, int bits) {
  const int exponent = (bits & 0x7f) >> f.mantissa, part = bits & ((1 << f.mantissa) - 1);
  const double unit = 1 << f.mantissa;
  const double size = exponent == 0 ? std::ldexp(part / unit, 1 - f.bias)
                                    : std::ldexp(1 + part / unit, exponent - f.bias);
  return bits & 0x80 ? -size : size;
}

TEST(Float8, EveryPatternHasTheValueOfTheDefinition) {
  for (const Format& f : kFormats) {
    for (int bits = 0; bits < 256; ++bits) {
      const auto b = static_cast<std::uint8_t>(bits);
      if ((bits & 0x7f) <= f.largest) {
        ASSERT_EQ(f.widen(b), defined(f, bits)) << bits;
        ASSERT_EQ(std::signbit(f.widen(b)), bits >= 0x80) << bits;
        ASSERT_EQ(f.narrow(f.widen(b)), b) << bits;
        ASSERT_EQ(f.narrow_float(f.widen(b)), b) << bits;
      } else if (f.bias == 15 && (bits & 0x7f) == 0x7c) {
        ASSERT_EQ(f.widen(b), bits & 0x80 ? -kInf : kInf);
      } else {
        ASSERT_TRUE(std::isnan(f.widen(b))) << bits;
      }
    }
  }
}

TEST(Float8, LimitsOfTheSpecification) {
  EXPECT_EQ(e4m3_to_float(0x7e), 448);
  EXPECT_EQ(e4m3_to_float(0x08), 0x1p-6);
  EXPECT_EQ(e4m3_to_float(0x01), 0x1p-9);
  EXPECT_EQ(e5m2_to_float(0x7b), 57344);
  EXPECT_EQ(e5m2_to_float(0x04), 0x1p-14);
  EXPECT_EQ(e5m2_to_float(0x01), 0x1p-16);
}

// The neighbour of smallest distance, the even one of two.
TEST(Float8, RoundsToNearestEven) {
  for (const Format& f : kFormats) {
    for (int bits = 0; bits < f.largest; ++bits) {
      const double low = defined(f, bits), high = defined(f, bits + 1), middle = (low + high) / 2;
      const int even = bits % 2 == 0 ? bits : bits + 1;
      EXPECT_EQ(f.narrow(middle), even) << bits;
      EXPECT_EQ(f.narrow(std::nextafter(middle, 0.0)), bits) << bits;
      EXPECT_EQ(f.narrow(std::nextafter(middle, kInf)), bits + 1) << bits;
      EXPECT_EQ(f.narrow(-std::nextafter(middle, kInf)), 0x80 | (bits + 1)) << bits;
    }
  }
}

TEST(Float8, SaturatesAndKeepsNan) {
  for (const Format& f : kFormats) {
    const double most = defined(f, f.largest);
    for (const double x : {most * 1.001, most * 2, 1e30, 1e300, kInf}) {
      EXPECT_EQ(f.narrow(x), f.largest) << x;
      EXPECT_EQ(f.narrow(-x), 0x80 | f.largest) << x;
    }
    EXPECT_EQ(f.narrow(std::nan("")), 0x7f);
    EXPECT_EQ(f.narrow(1e-300), 0);
    EXPECT_EQ(f.narrow(-1e-300), 0x80);
  }
}

TEST(Float8, TypesHaveNames) {
  EXPECT_EQ(to_string(f8e4m3), "f8e4m3");
  EXPECT_EQ(parse_dtype("f8e5m2x16"), f8e5m2.with_lanes(16));
  EXPECT_EQ(f8e4m3.bytes(), 1);
  EXPECT_TRUE(f8e4m3.is_float() && f8e4m3.is_small_float() && f8e4m3.is_float8());
  EXPECT_FALSE(bf16.is_float8() || i8.is_small_float());
}

}  // namespace
}  // namespace heddle
