#include "measure/process/weights_place.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <vector>

#include "heddle/runtime/ndarray.h"
#include "heddle/runtime/timer.h"
#include "measure/process/pool.h"
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace heddle::measuring {
namespace {

constexpr int64_t kLine = 64, kBlock = int64_t{64} << 10, kLinesOfBlock = kBlock / kLine;
// The lines of a block that are read one after the other, each at an address that depends on the
// one before, in an order that prefetchers do not follow.
constexpr int kTimedLines = 8;
constexpr int64_t kStride = 389, kFirst = 17;
// Memory of the first size is in the last cache after it was read. Larger networks than the second
// do not differ.
constexpr int64_t kInLastCache = int64_t{8} << 20, kMost = int64_t{512} << 20;
// The share of the free memory that may be used.
constexpr int64_t kPartOfFree = 4;
// Reads of the main memory take at least this many times as long where the two can be told apart.
constexpr double kTellsApart = 1.4;
// Other processes delay reads and use the same cache, so the fast reads count as those of the
// cache.
constexpr double kFastReads = 0.2;

int64_t timed_line(int n) { return (n * kStride + kFirst) % kLinesOfBlock; }

double quantile(std::vector<double> values, double which) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(which * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

/// Reads the memory once. Returns the seconds of a single read for each block.
std::vector<double> read_once(const NDArray& memory, int64_t bytes) {
  const auto* base = static_cast<const volatile uint8_t*>(memory.data());
  std::vector<double> seconds;
  for (int64_t begin = 0; begin + kBlock <= bytes; begin += kBlock) {
    const Timer timer;
    int64_t offset =
        0;  // the memory holds zeros, so that addresses depend on reads but not on data
    for (int n = 0; n < kTimedLines; ++n) offset = base[begin + (timed_line(n) + offset) * kLine];
    seconds.push_back(timer.elapsed_s() / kTimedLines);
    for (int64_t line = 0; line < kLinesOfBlock; ++line) (void)base[begin + line * kLine];
  }
  return seconds;
}

#if defined(__x86_64__)
void flush(const NDArray& memory, int64_t bytes) {
  const auto* base = static_cast<const uint8_t*>(memory.data());
  for (int64_t at = 0; at < bytes; at += kLine) _mm_clflush(base + at);
}

std::optional<double> measured(int64_t network_bytes) {
  const int64_t bytes = std::clamp(network_bytes, kInLastCache, kMost) / kBlock * kBlock;
  if (bytes > free_memory_bytes() / kPartOfFree) return std::nullopt;
  const NDArray memory = NDArray::zeros({bytes}, u8);
  for (int i = 0; i < 2; ++i) read_once(memory, kInLastCache);
  const double cached = quantile(read_once(memory, kInLastCache), kFastReads);
  flush(memory, kInLastCache);
  const double from_memory = quantile(read_once(memory, kInLastCache), 0.5);
  if (from_memory < kTellsApart * cached) return std::nullopt;
  read_once(memory, bytes);
  const std::vector<double> in_cycle = read_once(memory, bytes);
  const double between = 0.5 * (cached + from_memory);
  const auto slow =
      std::count_if(in_cycle.begin(), in_cycle.end(), [&](double s) { return s > between; });
  return static_cast<double>(slow) / static_cast<double>(in_cycle.size());
}
#else
std::optional<double> measured(int64_t) { return std::nullopt; }  // nothing to flush caches with
#endif

}  // namespace

std::optional<double> weights_from_memory(int64_t network_bytes) {
  static std::mutex mutex;
  static std::map<int64_t, std::optional<double>> known;
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(network_bytes);
  if (is_new) at->second = measured(network_bytes);
  return at->second;
}

}  // namespace heddle::measuring
