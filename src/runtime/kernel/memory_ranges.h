// The memory of many arrays, in which another array is found at once.
#pragma once

#include <span>
#include <vector>

#include "heddle/runtime/ndarray.h"

namespace heddle {

/// The memory of arrays, in the order of addresses. Those without elements have none.
class MemoryRanges {
 public:
  MemoryRanges() = default;
  explicit MemoryRanges(std::span<const NDArray> arrays);
  /// Whether an array shares memory with one of them.
  bool overlap(const NDArray& array) const;

 private:
  struct Range {
    const char *begin, *end;
  };
  std::vector<Range> ranges_;  ///< apart from each other
};

}  // namespace heddle
