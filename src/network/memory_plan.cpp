#include "network/memory_plan.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace heddle::network {
namespace {

int64_t aligned(int64_t bytes) {
  return (bytes + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

// The start of the smallest gap of at least `bytes` between the taken ranges, or the end of the
// last range (best fit).
int64_t best_gap(std::vector<std::pair<int64_t, int64_t>> taken, int64_t bytes) {
  std::sort(taken.begin(), taken.end());
  int64_t end = 0, best = -1, best_size = 0;
  for (const auto& [from, to] : taken) {
    const int64_t gap = from - end;
    if (gap >= bytes && (best < 0 || gap < best_size)) {
      best = end;
      best_size = gap;
    }
    end = std::max(end, to);
  }
  return best < 0 ? end : best;
}

// The bytes that live at once where most do.
int64_t least_bytes(std::span<const BufferLifetime> buffers) {
  std::map<int, int64_t> change;
  for (const BufferLifetime& b : buffers) {
    change[b.first] += aligned(b.bytes);
    change[b.last + 1] -= aligned(b.bytes);
  }
  int64_t live = 0, most = 0;
  for (const auto& [step, bytes] : change) most = std::max(most, live += bytes);
  return most;
}

MemoryPlan placed(std::span<const BufferLifetime> buffers, std::vector<size_t> order,
                  int64_t (*key)(const BufferLifetime&)) {
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return key(buffers[a]) < key(buffers[b]); });
  MemoryPlan plan;
  plan.offsets.resize(buffers.size());
  for (size_t n = 0; n < order.size(); ++n) {
    const BufferLifetime& own = buffers[order[n]];
    std::vector<std::pair<int64_t, int64_t>> taken;
    for (size_t m = 0; m < n; ++m) {
      const BufferLifetime& other = buffers[order[m]];
      if (other.first > own.last || own.first > other.last) continue;
      const int64_t from = plan.offsets[order[m]];
      taken.emplace_back(from, from + aligned(other.bytes));
    }
    const int64_t offset = best_gap(std::move(taken), aligned(own.bytes));
    plan.offsets[order[n]] = offset;
    plan.bytes = std::max(plan.bytes, offset + aligned(own.bytes));
  }
  return plan;
}

}  // namespace

MemoryPlan plan_memory(std::span<const BufferLifetime> buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto by_size = [](const BufferLifetime& b) { return -b.bytes; };
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return by_size(buffers[a]) < by_size(buffers[b]); });
  MemoryPlan best = placed(buffers, order, by_size);
  const int64_t least = least_bytes(buffers);
  using Key = int64_t (*)(const BufferLifetime&);
  // Among equals the largest first.
  for (const Key key :
       {Key([](const BufferLifetime& b) { return int64_t{b.first}; }),
        Key([](const BufferLifetime& b) { return int64_t{b.first} - b.last; }),
        Key([](const BufferLifetime& b) { return (b.first - b.last - 1) * b.bytes; })}) {
    if (best.bytes <= least) break;
    if (MemoryPlan other = placed(buffers, order, key); other.bytes < best.bytes)
      best = std::move(other);
  }
  return best;
}

}  // namespace heddle::network
