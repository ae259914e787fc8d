// Which arrays share memory, found by their order in it and by comparing all pairs.
#include "runtime/kernel/memory_ranges.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heddle/support/error.h"
#include "heddle/support/rng.h"
#include "runtime/kernel/check_arguments.h"

namespace heddle {
namespace {

class Ranges : public testing::Test {
 protected:
  /// A part of one block of memory, now and then without elements.
  NDArray draw(int64_t most) {
    const int64_t begin = rng_.uniform_int(0, block_.size() - 1),
                  n = std::min(rng_.uniform_int(0, most), block_.size() - begin);
    return NDArray::wrap(block_.data<float>() + begin, {n}, f32);
  }
  static bool share(const NDArray& a, const NDArray& b) {
    const float *x = a.data<float>(), *y = b.data<float>();
    return a.size() > 0 && b.size() > 0 && x < y + b.size() && y < x + a.size();
  }

  Rng rng_{1};
  const NDArray block_ = NDArray::zeros({200}, f32);
};

TEST_F(Ranges, AnArraySharesMemoryWithOneOfThem) {
  int shared = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<NDArray> arrays;
    for (int64_t n = rng_.uniform_int(0, 12); n > 0; --n) arrays.push_back(draw(16));
    const NDArray one = draw(8);
    const bool want =
        std::ranges::any_of(arrays, [&](const NDArray& other) { return share(one, other); });
    EXPECT_EQ(MemoryRanges(arrays).overlap(one), want) << "round " << round;
    shared += want ? 1 : 0;
  }
  EXPECT_GT(shared, 100);
  EXPECT_LT(shared, 400);
}

TEST_F(Ranges, OutputsOfACallShareNoMemory) {
  int refused = 0;
  for (int round = 0; round < 500; ++round) {
    std::vector<NDArray> arrays;
    std::vector<KernelArg> args;
    for (int64_t n = rng_.uniform_int(2, 14); n > 0; --n) {
      arrays.push_back(draw(5));
      const Extents shape = arrays.back().shape();
      args.push_back({.name = "a", .dtype = f32, .shape = shape, .output = rng_.chance(0.3)});
    }
    bool want = false;
    for (size_t o = 0; o < arrays.size(); ++o) {
      for (size_t i = 0; i < arrays.size(); ++i)
        want |= args[o].output && i != o && share(arrays[o], arrays[i]);
    }
    bool got = false;
    try {
      (void)check_arguments("k", args, arrays);
    } catch (const Error&) {
      got = true;
    }
    EXPECT_EQ(got, want) << "round " << round;
    refused += want ? 1 : 0;
  }
  EXPECT_GT(refused, 100);
  EXPECT_LT(refused, 400);
}

}  // namespace
}  // namespace heddle
