// Picks by sizes: many sizes, and threads that look up while others pick.
#include "runtime/program/pick_table.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <thread>

namespace heddle {
namespace {

int variant_of(int64_t a, int64_t b) { return static_cast<int>((31 * a + b) % 7); }

TEST(PickTable, HasTheLastPickOfEachOfSomeSizes) {
  PickTable table;
  EXPECT_EQ(table.at({}), -1);
  table.pick({}, 3);
  EXPECT_EQ(table.at({}), 3);
  for (const int round : {1, 2}) {
    for (int64_t a = 0; a < 40; ++a) {
      for (int64_t b = -5; b < 20; ++b)
        table.pick(std::vector<int64_t>{a, b}, round * variant_of(a, b + 5));
    }
    for (int64_t a = 0; a < 41; ++a) {
      for (int64_t b = -5; b < 20; ++b)
        EXPECT_EQ(table.at(std::vector<int64_t>{a, b}), a < 40 ? round * variant_of(a, b + 5) : -1);
    }
  }
  table.clear();
  EXPECT_EQ(table.at({}), -1);
  EXPECT_EQ(table.at(std::vector<int64_t>{1, 1}), -1);
}

TEST(PickTable, TakesNoMoreMemoryForMoreSizes) {
  PickTable table;
  const size_t before = mallinfo2().uordblks;
  for (int64_t n = 0; n < 20000; ++n) {
    table.pick(std::vector<int64_t>{n}, 1);
    EXPECT_EQ(table.at(std::vector<int64_t>{n}), 1);
  }
  EXPECT_LT(mallinfo2().uordblks, before + (size_t{1} << 18));
}

TEST(PickTable, ReadersSeeWholePicks) {
  PickTable table;
  std::atomic<bool> over{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> readers;
  for (int t = 0; t < 2; ++t) {
    readers.emplace_back([&] {
      for (int64_t n = 0; !over; n = (n + 1) % 6000) {
        const int found = table.at(std::vector<int64_t>{n, n / 3});
        if (found != -1 && found != variant_of(n, n / 3)) ++wrong;
      }
    });
  }
  for (int64_t n = 0; n < 60000; ++n) {
    const int64_t m = n * 7919 % 6000;
    table.pick(std::vector<int64_t>{m, m / 3}, variant_of(m, m / 3));
    if (n % 10000 == 0) table.clear();
  }
  over = true;
  for (std::thread& t : readers) t.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace heddle
