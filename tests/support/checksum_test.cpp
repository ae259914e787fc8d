#include "support/hashing/checksum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <vector>

namespace heddle::internal {
namespace {

std::vector<unsigned char> numbers(std::size_t size) {
  std::vector<unsigned char> bytes(size);
  std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(1));
  return bytes;
}

std::uint64_t sum_of(const std::vector<unsigned char>& bytes, std::size_t part) {
  Checksum sum;
  for (std::size_t at = 0; at < bytes.size(); at += part)
    sum.add(bytes.data() + at, std::min(part, bytes.size() - at));
  return sum.value();
}

TEST(Checksum, PartsDoNotMatter) {
  for (const std::size_t size : {0, 1, 31, 32, 33, 64, 200}) {
    const std::vector<unsigned char> bytes = numbers(size);
    for (std::size_t part = 1; part <= 70; ++part)
      EXPECT_EQ(sum_of(bytes, part), sum_of(bytes, 1000)) << size << " in parts of " << part;
  }
}

TEST(Checksum, EachBitAndTheLengthMatter) {
  const std::vector<unsigned char> bytes = numbers(75);
  const std::uint64_t sum = sum_of(bytes, 1000);
  for (std::size_t bit = 0; bit < 8 * bytes.size(); ++bit) {
    std::vector<unsigned char> other = bytes;
    other[bit / 8] ^= static_cast<unsigned char>(1 << bit % 8);
    EXPECT_NE(sum_of(other, 1000), sum) << bit;
  }
  std::vector<unsigned char> longer = bytes;
  longer.push_back(0);
  EXPECT_NE(sum_of(longer, 1000), sum);
  // Words that change places do not cancel out.
  std::vector<unsigned char> moved = bytes;
  std::swap_ranges(moved.begin(), moved.begin() + 32, moved.begin() + 32);
  EXPECT_NE(sum_of(moved, 1000), sum);
}

}  // namespace
}  // namespace heddle::internal
