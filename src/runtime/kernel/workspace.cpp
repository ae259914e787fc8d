#include "heddle/runtime/workspace.h"

#include <algorithm>
#include <cstddef>
#include <new>
#include <vector>

#include "runtime/machine/aligned_memory.h"

namespace heddle {
namespace {

// The largest number of kept blocks. A kernel needs a few at a time.
constexpr std::size_t kMaxBlocks = 32;
constexpr std::size_t kMaxBytes = std::size_t{1} << 30;

class Cache {
 public:
  ~Cache() { clear(); }

  void* take(std::size_t bytes) {
    // The smallest block that fits, unless more than half of it would be unused.
    auto best = blocks_.end();
    for (auto it = blocks_.begin(); it != blocks_.end(); ++it) {
      const std::size_t capacity = internal::aligned_capacity(*it);
      if (capacity < bytes || capacity > 2 * bytes + internal::kCacheLine) continue;
      if (best == blocks_.end() || capacity < internal::aligned_capacity(*best)) best = it;
    }
    if (best == blocks_.end()) return nullptr;
    void* block = *best;
    blocks_.erase(best);
    bytes_ -= internal::aligned_capacity(block);
    return block;
  }

  void put(void* block) {
    const std::size_t capacity = internal::aligned_capacity(block);
    if (capacity > kMaxBytes) {
      internal::free_aligned(block);
      return;
    }
    while (blocks_.size() >= kMaxBlocks || (bytes_ + capacity > kMaxBytes && !blocks_.empty())) {
      bytes_ -= internal::aligned_capacity(blocks_.front());
      internal::free_aligned(blocks_.front());
      blocks_.erase(blocks_.begin());
    }
    try {
      blocks_.push_back(block);
    } catch (const std::bad_alloc&) {
      internal::free_aligned(block);
      return;
    }
    bytes_ += capacity;
  }

  void clear() {
    for (void* block : blocks_) internal::free_aligned(block);
    blocks_.clear();
    bytes_ = 0;
  }

 private:
  std::vector<void*> blocks_;  // oldest first
  std::size_t bytes_ = 0;
};

// Code at thread exit may free a block after the cache of this thread was destroyed. Then it is
// freed directly.
thread_local bool cache_gone = false;
struct ThreadCache : Cache {
  ~ThreadCache() { cache_gone = true; }
};

Cache* thread_cache() {
  thread_local ThreadCache cache;
  return cache_gone ? nullptr : &cache;
}

}  // namespace

void release_workspaces() {
  if (Cache* cache = thread_cache()) cache->clear();
}

}  // namespace heddle

void* heddle_workspace_alloc(std::int64_t bytes) {
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(bytes, 1));
  if (heddle::Cache* cache = heddle::thread_cache()) {
    if (void* block = cache->take(wanted)) return block;
  }
  return heddle::internal::allocate_aligned(wanted);
}

void heddle_workspace_free(void* block) {
  if (block == nullptr) return;
  if (heddle::Cache* cache = heddle::thread_cache()) {
    cache->put(block);
  } else {
    heddle::internal::free_aligned(block);
  }
}
