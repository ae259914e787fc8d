// Bits counted and packed, and products by counts of bits.
#include <bit>

#include "ops/ops_testing.h"

namespace heddle {
namespace {

uint64_t integer(double value) { return static_cast<uint64_t>(value); }

TEST(Bits, AreCountedInEveryType) {
  for (const DataType t : {u8, u16, u32, u64}) {
    const Input x = input({3, 37}, t);
    expect_elements(ops::popcount(x), {x},
                    [&](const Dims& i) { return std::popcount(integer(x(i[0], i[1]))); });
  }
  const Input all = input_of(NDArray::from<uint32_t>({0, 1, 0x80000000U, 0xffffffffU}, {4}));
  const double expected[] = {0, 1, 1, 32};
  expect_elements(ops::popcount(all), {all}, [&](const Dims& i) { return expected[i[0]]; });
  const Input negative = input_of(NDArray::from<int32_t>({-1, -2, 5}, {3}));
  const double of_signed[] = {32, 31, 2};
  expect_elements(ops::popcount(negative), {negative},
                  [&](const Dims& i) { return of_signed[i[0]]; });
  EXPECT_THAT(error_of([] { ops::popcount(input({3}).tensor); }), testing::HasSubstr("integers"));
}

TEST(Bits, ArePackedWithTheFirstOneLowest) {
  const Input x = input({2, 37, 3}, i32, 1, -1, 1);
  expect_elements(ops::pack_bits(x, 1, u16), {x}, [&](const Dims& i) {
    double word = 0;
    for (int64_t b = 0; b < 16 && i[1] * 16 + b < 37; ++b)
      word += x(i[0], i[1] * 16 + b, i[2]) != 0 ? std::ldexp(1, static_cast<int>(b)) : 0;
    return word;
  });
  EXPECT_THROW(ops::pack_bits(x, 1, i32), Error);
}

TEST(Bits, OfPlanesAreThoseOfTheNumbers) {
  const Input x = input({3, 40}, u8);
  expect_elements(ops::pack_planes(x, 3), {x}, [&](const Dims& i) {
    double word = 0;
    for (int64_t b = 0; b < 32 && i[2] * 32 + b < 40; ++b)
      word += std::ldexp(static_cast<double>(integer(x(i[1], i[2] * 32 + b)) >> i[0] & 1),
                         static_cast<int>(b));
    return word;
  });
  EXPECT_THROW(ops::pack_planes(x, 9), Error);
}

TEST(Bits, GiveProductsOfSigns) {
  const Input x = input({5, 70}, i32, 1, 0, 1), w = input({4, 70}, i32, 2, 0, 1);
  const Tensor y = ops::binary_matmul(ops::pack_bits(x), ops::pack_bits(w), 70);
  expect_elements(y, {x, w}, [&](const Dims& i) {
    double sum = 0;
    for (int64_t k = 0; k < 70; ++k) sum += (x(i[0], k) != 0 ? 1 : -1) * (w(i[1], k) != 0 ? 1 : -1);
    return sum;
  });
  EXPECT_THROW(ops::binary_matmul(ops::pack_bits(x), ops::pack_bits(w), 64), Error);
}

double few(double value, int bits) {
  return static_cast<double>(integer(value) & ((1U << bits) - 1));
}

/// A weight of few bits of which each is 1 or -1.
double signed_few(double value, int bits) {
  return 2 * few(value, bits) - static_cast<double>((1U << bits) - 1);
}

TEST(Bits, GiveProductsOfFewBits) {
  const Input x = input({5, 45}, u8, 1), w = input({6, 45}, u8, 2);
  for (const bool with_sign : {false, true}) {
    const Tensor y =
        ops::bitserial_matmul(x, w, {.bits_x = 3, .bits_w = 2, .signed_weights = with_sign});
    expect_elements(y, {x, w}, [&](const Dims& i) {
      double sum = 0;
      for (int64_t k = 0; k < 45; ++k)
        sum += few(x(i[0], k), 3) * (with_sign ? signed_few(w(i[1], k), 2) : few(w(i[1], k), 2));
      return sum;
    });
  }
}

TEST(Bits, GiveConvolutionsInBothLayouts) {
  for (const ops::Layout layout : {ops::Layout::ChannelsFirst, ops::Layout::ChannelsLast}) {
    const bool first = layout == ops::Layout::ChannelsFirst;
    const Input x = input(first ? Dims{2, 35, 5, 6} : Dims{2, 5, 6, 35}, u8, 1);
    const Input w = input(first ? Dims{4, 35, 3, 2} : Dims{3, 2, 35, 4}, u8, 2);
    ops::Conv attributes;
    attributes.stride = {2, 1};
    attributes.padding = {1};
    attributes.layout = layout;
    const Tensor y = ops::bitserial_conv2d(x, w, {.bits_x = 2, .bits_w = 1}, attributes);
    expect_elements(y, {x, w}, [&](const Dims& i) {
      const int64_t k = first ? i[1] : i[3], row = first ? i[2] : i[1],
                    column = first ? i[3] : i[2];
      double sum = 0;
      for (int64_t c = 0; c < 35; ++c)
        for (int64_t r = 0; r < 3; ++r)
          for (int64_t s = 0; s < 2; ++s) {
            const int64_t h = row * 2 + r - 1, v = column + s - 1;
            const double of_x = x.or_else(0, first ? Dims{i[0], c, h, v} : Dims{i[0], h, v, c});
            const double of_w = first ? w(k, c, r, s) : w(r, s, c, k);
            sum += few(of_x, 2) * few(of_w, 1);
          }
      return sum;
    });
  }
}

}  // namespace
}  // namespace heddle
