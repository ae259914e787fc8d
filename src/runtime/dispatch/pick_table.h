// Picks by the extents of a call, read without a lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

/// What calls with certain extents run.
struct Settled {
  size_t variant = 0;
  std::vector<int64_t> extents;  ///< the extents in which calls may differ
  Kernel kernel;                 ///< checks the arguments itself
  std::function<void(std::span<const NDArray>)> function;  ///< in place of it
};

/// Readers look up while one writer at a time adds. Entries live as long as the table, so that a
/// reader may use one that was replaced.
class PickTable {
 public:
  struct Dimension {
    size_t arg = 0, dim = 0;
  };
  /// `free` are the extents by which the table is searched. There are none where every call has the
  /// same shapes.
  explicit PickTable(std::vector<Dimension> free = {}) : free_(std::move(free)) {}

  /// Null where there is no entry for them, or where they are too few or of too few dimensions.
  const Settled* find(std::span<const NDArray> arrays) const {
    if (free_.empty()) return single_.load(std::memory_order_acquire);
    return find_by_extents(arrays);
  }
  /// The extents of these arrays by which entries are found. The arrays have been checked.
  std::vector<int64_t> extents_of(std::span<const NDArray> arrays) const;
  /// Adds an entry and replaces the previous one for its extents.
  const Settled* add(Settled settled);
  /// Removes all entries.
  void clear();

 private:
  static constexpr size_t kSlots = 4096;  ///< a power of two
  /// Above this number of entries the table would be slow, and the oldest are removed.
  static constexpr size_t kMostEntries = kSlots / 2;

  const Settled* find_by_extents(std::span<const NDArray> arrays) const;

  std::vector<Dimension> free_;
  std::atomic<const Settled*> single_{nullptr};
  std::unique_ptr<std::atomic<const Settled*>[]> slots_;
  std::atomic<std::atomic<const Settled*>*> open_{nullptr};
  size_t filled_ = 0;
  std::vector<std::unique_ptr<const Settled>> all_;
};

}  // namespace heddle
