#include "runtime/kernel/memory_ranges.h"

#include <algorithm>

namespace heddle {

MemoryRanges::MemoryRanges(std::span<const NDArray> arrays) {
  std::vector<Range> all;
  for (const NDArray& a : arrays) {
    const auto* const begin = static_cast<const char*>(a.address());
    if (a.bytes() > 0) all.push_back({begin, begin + a.bytes()});
  }
  std::ranges::sort(all, {}, &Range::begin);
  for (const Range& next : all) {
    if (ranges_.empty() || ranges_.back().end < next.begin) {
      ranges_.push_back(next);
    } else {
      ranges_.back().end = std::max(ranges_.back().end, next.end);
    }
  }
}

bool MemoryRanges::overlap(const NDArray& array) const {
  if (ranges_.empty() || array.bytes() == 0) return false;
  const auto* const begin = static_cast<const char*>(array.address());
  // The first range that does not end before the array.
  const auto at = std::ranges::upper_bound(ranges_, begin, {}, &Range::end);
  return at != ranges_.end() && at->begin < begin + array.bytes();
}

}  // namespace heddle
