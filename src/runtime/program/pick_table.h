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
    const Slots* slots = open_.load(std::memory_order_acquire);
    return slots == nullptr ? -1 : slots->find(sizes);
  }
  /// Replaces the previous pick for these sizes, of which there are as many in all calls. All others are forgotten
  /// where there are thousands.
  void pick(std::span<const int64_t> sizes, int variant);
  void clear();

 private:
  static constexpr size_t kFewest = 16, kMost = 4096;  ///< slots, of which half are filled

  /// A hash table of open addresses. A writer makes `version` odd meanwhile, and a reader that sees another version
  /// at its end begins again.
  struct Slots {
    Slots(size_t slots, size_t numbers)
        : count(slots), width(numbers + 1), words(new std::atomic<int64_t>[slots * width]()) {}
    int find(std::span<const int64_t> sizes) const;
    /// The slot of these sizes, or the empty one for them.
    std::atomic<int64_t>* slot_of(std::span<const int64_t> sizes) const;
    void set(std::span<const int64_t> sizes, int variant);
    void clear();

    size_t count, width, filled = 0;
    std::atomic<uint64_t> version{0};
    /// Of each slot the variant and 1, or 0 where it is empty, and the sizes.
    std::unique_ptr<std::atomic<int64_t>[]> words;
  };
  Slots& with_room(size_t numbers);

  std::atomic<int> single_{-1};
  std::atomic<const Slots*> open_{nullptr};
  std::mutex writing_;
  std::vector<std::unique_ptr<Slots>>
      all_;  ///< each of twice the size of that before, which readers may have
};

}  // namespace heddle
