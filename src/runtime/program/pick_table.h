// Picks by the sizes of a call, read without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace heddle {

/// Which variant was picked for which sizes. Readers look up while others pick.
class PickTable {
 public:
  /// The variant for these sizes, of which there may be none; -1: nothing was picked for them.
  int at(std::span<const int64_t> sizes) const {
    if (sizes.empty()) return single_.load(std::memory_order_acquire);
    std::atomic<const Entry*>* slots = open_.load(std::memory_order_acquire);
    return slots == nullptr ? -1 : find(slots, sizes);
  }
  /// Replaces the previous pick for these sizes.
  void pick(std::span<const int64_t> sizes, int variant);
  void clear();

 private:
  struct Entry {
    std::vector<int64_t> sizes;
    std::atomic<int> variant{-1};
  };

  static constexpr size_t kSlots = 4096;  ///< a power of two
  /// Above this number of entries the table would be slow, and all are forgotten.
  static constexpr size_t kMostEntries = kSlots / 2;

  static int find(std::atomic<const Entry*>* slots, std::span<const int64_t> sizes);
  /// The entry of these sizes, which is made where there is none.
  Entry& entry_of(std::span<const int64_t> sizes);

  std::atomic<int> single_{-1};
  std::unique_ptr<std::atomic<const Entry*>[]> slots_;
  std::atomic<std::atomic<const Entry*>*> open_{nullptr};
  std::mutex writing_;
  size_t filled_ = 0;
  std::vector<std::unique_ptr<Entry>> all_;  ///< they live as long as the table, for readers
};

}  // namespace heddle
