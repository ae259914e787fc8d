#include "heddle/support/dtype.h"

#include <gtest/gtest.h>

#include <sstream>

namespace heddle {
namespace {

TEST(DataType, PrintsAndParsesBack) {
  for (DataType type : {f64, f32, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, boolean}) {
    for (int lanes : {1, 4, 16}) {
      const DataType vector = type.with_lanes(lanes);
      EXPECT_EQ(parse_dtype(to_string(vector)), vector) << to_string(vector);
    }
  }
  EXPECT_EQ(to_string(f32), "f32");
  EXPECT_EQ(to_string(f32.with_lanes(8)), "f32x8");
  EXPECT_EQ(to_string(boolean), "bool");
  EXPECT_EQ(to_string(bf16), "bf16");
  std::ostringstream out;
  out << u8;
  EXPECT_EQ(out.str(), "u8");
}

TEST(DataType, RefusesTextsThatNameNoType) {
  for (const char* text : {"", "f", "f31", "f32x", "f32x0", "f32x-1", "f32x8x2", "F32", "float32",
                           "f32 ", "i128", "f32x99999"}) {
    EXPECT_FALSE(parse_dtype(text)) << text;
  }
}

TEST(DataType, KnowsItsSizeAndKind) {
  EXPECT_EQ(f64.bytes(), 8);
  EXPECT_EQ(boolean.bytes(), 1);
  EXPECT_EQ(bf16.with_lanes(8).bytes(), 16);
  EXPECT_EQ(f32.with_lanes(8).element(), f32);
  EXPECT_TRUE(bf16.is_float());
  EXPECT_FALSE(boolean.is_uint());
  EXPECT_TRUE(boolean.is_integral());
  EXPECT_TRUE(u8.is_integral());
  EXPECT_FALSE(f16.is_integral());
  static_assert(f32 != f32.with_lanes(2));
}

}  // namespace
}  // namespace heddle
