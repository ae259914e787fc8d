#include "network/memory_plan.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heddle/support/rng.h"

namespace heddle::network {
namespace {

bool alive_together(const BufferLifetime& a, const BufferLifetime& b) {
  return a.first <= b.last && b.first <= a.last;
}

TEST(MemoryPlan, NothingNeedsNothing) { EXPECT_EQ(plan_memory({}).bytes, 0); }

TEST(MemoryPlan, AChainNeedsTwoBuffers) {
  // Step n writes buffer n, step n + 1 reads it: at any time two are alive.
  std::vector<BufferLifetime> chain;
  for (int n = 0; n < 6; ++n) chain.push_back({1000, n, n + 1});
  EXPECT_EQ(plan_memory(chain).bytes, 2 * 1024);
}

TEST(MemoryPlan, ALongLivedBufferIsNotOverwritten) {
  const std::vector<BufferLifetime> buffers{{64, 0, 3}, {64, 0, 1}, {64, 1, 2}, {64, 2, 3}};
  const MemoryPlan plan = plan_memory(buffers);
  for (size_t i = 1; i < buffers.size(); ++i) EXPECT_NE(plan.offsets[0], plan.offsets[i]) << i;
  EXPECT_EQ(plan.bytes, 3 * 64);
}

TEST(MemoryPlan, TheSmallestGapThatFitsIsTaken) {
  // 512 and 64 leave gaps of their sizes when their steps are over; the last two go there.
  const std::vector<BufferLifetime> buffers{{1024, 0, 9}, {512, 0, 0}, {448, 0, 9}, {320, 0, 0},
                                            {256, 0, 9},  {320, 1, 1}, {512, 1, 1}};
  const MemoryPlan plan = plan_memory(buffers);
  EXPECT_EQ(plan.offsets[5], plan.offsets[3]);
  EXPECT_EQ(plan.offsets[6], plan.offsets[1]);
}

TEST(MemoryPlan, OtherOrdersAreTriedWhereTheLargestFirstLeavesGaps) {
  // 704 bytes live at steps 3 and 4. With the largest first the two of 256 lie at the bottom, and that of
  // 192 from step 1 on beside the first of them and not where the last three find room: 768.
  const std::vector<BufferLifetime> buffers{{320, 0, 0}, {192, 1, 3}, {192, 2, 4},
                                            {256, 0, 1}, {256, 3, 4}, {64, 3, 4}};
  EXPECT_EQ(plan_memory(buffers).bytes, 704);
}

TEST(MemoryPlan, RandomLifetimesNeverOverlapAndStayBelowTheSum) {
  Rng rng(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<BufferLifetime> buffers(static_cast<size_t>(rng.uniform_int(1, 25)));
    int64_t sum = 0;
    for (BufferLifetime& b : buffers) {
      b.bytes = rng.uniform_int(1, 4000);
      b.first = static_cast<int>(rng.uniform_int(0, 15));
      b.last = b.first + static_cast<int>(rng.uniform_int(0, 5));
      sum += (b.bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
    }
    const MemoryPlan plan = plan_memory(buffers);
    EXPECT_LE(plan.bytes, sum);
    for (size_t i = 0; i < buffers.size(); ++i) {
      EXPECT_EQ(plan.offsets[i] % kArenaAlignment, 0);
      EXPECT_LE(plan.offsets[i] + buffers[i].bytes, plan.bytes);
      for (size_t j = 0; j < i; ++j) {
        const bool apart = plan.offsets[i] + buffers[i].bytes <= plan.offsets[j] ||
                           plan.offsets[j] + buffers[j].bytes <= plan.offsets[i];
        EXPECT_TRUE(apart || !alive_together(buffers[i], buffers[j])) << round;
      }
    }
  }
}

}  // namespace
}  // namespace heddle::network
