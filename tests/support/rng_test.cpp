#include "heddle/support/rng.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <limits>

namespace heddle {
namespace {

TEST(Rng, SequenceDependsOnTheSeedOnly) {
  Rng a(42), b(42), c(43);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(a(), b());
  EXPECT_NE(a(), c());
  EXPECT_EQ(Rng(1)(), 0xb3f2af6d0fc710c5ULL);  // tests' seeds mean this sequence
}

TEST(Rng, IntegersCoverTheRangeEvenly) {
  Rng rng(7);
  std::vector<int> seen(7);
  for (int i = 0; i < 70000; ++i) ++seen[static_cast<std::size_t>(rng.uniform_int(-3, 3) + 3)];
  for (int count : seen) EXPECT_NEAR(count, 10000, 500);
  EXPECT_EQ(rng.uniform_int(5, 5), 5);
  rng.uniform_int(std::numeric_limits<std::int64_t>::min(),
                  std::numeric_limits<std::int64_t>::max());
}

TEST(Rng, RealsStayInTheRange) {
  Rng rng(7);
  double sum = 0, squares = 0;
  for (int i = 0; i < 10000; ++i) {
    const double x = rng.uniform_real(2, 3);
    ASSERT_GE(x, 2);
    ASSERT_LT(x, 3);
    sum += x;
    const double g = rng.normal();
    squares += g * g;
  }
  EXPECT_NEAR(sum / 10000, 2.5, 0.02);
  EXPECT_NEAR(squares / 10000, 1, 0.1);
}

TEST(Rng, ShuffleKeepsTheItems) {
  Rng rng(3);
  std::vector<int> items = {1, 2, 3, 4, 5, 6, 7, 8};
  std::vector<int> shuffled = items;
  rng.shuffle(shuffled);
  EXPECT_NE(shuffled, items);
  std::sort(shuffled.begin(), shuffled.end());
  EXPECT_EQ(shuffled, items);
  Rng child = rng.fork();
  EXPECT_NE(child(), rng());
}

}  // namespace
}  // namespace heddle
