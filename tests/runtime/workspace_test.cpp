#include "heddle/runtime/workspace.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <set>
#include <thread>
#include <vector>

#include "heddle/support/rng.h"

namespace heddle {
namespace {

bool aligned(const void* block, std::uintptr_t alignment) {
  return reinterpret_cast<std::uintptr_t>(block) % alignment == 0;
}

TEST(Workspace, BlocksAreAligned) {
  for (std::int64_t bytes :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{100}, std::int64_t{1} << 20}) {
    void* block = heddle_workspace_alloc(bytes);
    EXPECT_TRUE(aligned(block, 64));
    std::memset(block, 1, static_cast<std::size_t>(bytes));
    heddle_workspace_free(block);
  }
  void* large = heddle_workspace_alloc(5 << 20);
  EXPECT_TRUE(aligned(large, 2 << 20));
  std::memset(large, 1, 5 << 20);
  heddle_workspace_free(large);
  heddle_workspace_free(nullptr);
  release_workspaces();
}

TEST(Workspace, ASecondCallGetsTheSameBlocks) {
  std::set<void*> first, second;
  for (auto* blocks : {&first, &second}) {
    void* a = heddle_workspace_alloc(100000);
    void* b = heddle_workspace_alloc(3 << 20);
    *blocks = {a, b};
    heddle_workspace_free(a);
    heddle_workspace_free(b);
  }
  EXPECT_EQ(first, second);
  release_workspaces();
}

TEST(Workspace, NoMemoryGivesNull) {
  EXPECT_EQ(heddle_workspace_alloc(INT64_MAX), nullptr);
  EXPECT_EQ(heddle_workspace_alloc(std::int64_t{1} << 60), nullptr);
}

TEST(Workspace, LiveBlocksNeverOverlap) {
  auto stress = [](std::uint64_t seed) {
    Rng rng(seed);
    struct Block {
      unsigned char* data;
      std::size_t size;
      unsigned char mark;
    };
    std::vector<Block> live;
    for (int step = 0; step < 3000; ++step) {
      if (live.size() < 20 && rng.chance(0.6)) {
        const auto size = static_cast<std::size_t>(rng.uniform_int(1, 1 << rng.uniform_int(1, 14)));
        const auto mark = static_cast<unsigned char>(rng.uniform_int(0, 255));
        auto* data =
            static_cast<unsigned char*>(heddle_workspace_alloc(static_cast<std::int64_t>(size)));
        std::memset(data, mark, size);
        live.push_back({data, size, mark});
      } else if (!live.empty()) {
        std::swap(live.back(), live[static_cast<std::size_t>(rng.uniform_int(
                                   0, static_cast<std::int64_t>(live.size()) - 1))]);
        const Block block = live.back();
        live.pop_back();
        for (std::size_t i = 0; i < block.size; ++i) ASSERT_EQ(block.data[i], block.mark);
        heddle_workspace_free(block.data);
      }
    }
    for (const Block& block : live) heddle_workspace_free(block.data);
  };
  std::vector<std::thread> threads;
  for (std::uint64_t seed : {1, 2, 3}) threads.emplace_back(stress, seed);
  for (auto& thread : threads) thread.join();
}

TEST(Workspace, AnotherThreadMayFree) {
  // The thread that frees a block is the one that gets it again.
  void* block = heddle_workspace_alloc(4096);
  ASSERT_NE(block, nullptr);
  std::memset(block, 7, 4096);
  void* again = nullptr;
  std::thread([&] {
    heddle_workspace_free(block);
    again = heddle_workspace_alloc(4096);
    heddle_workspace_free(again);
  }).join();
  EXPECT_EQ(again, block);
}

}  // namespace
}  // namespace heddle
