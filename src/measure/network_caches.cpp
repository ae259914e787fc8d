#include "measure/network_caches.h"

#include <algorithm>
#include <atomic>

#include "heddle/runtime/thread_pool.h"
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace heddle::measuring {
namespace {

constexpr int64_t kLine = 64;
// The share of the last-level cache that weights may take. Activations and other data take the
// rest.
constexpr double kShareOfLastCache = 0.75;
// Reading this many times the size of a cache replaces all its contents, whatever its policy is.
constexpr int64_t kTimesTheCache = 2;

/// Reads every line of an array. Each thread reads a share.
void read(const NDArray& array) {
  std::atomic<int64_t> unused{0};
  parallel_for((array.bytes() + kLine - 1) / kLine, [&](int64_t begin, int64_t end) {
    const char* bytes = static_cast<const char*>(array.data());
    int64_t sum = 0;
    for (int64_t line = begin; line < end; ++line) sum += bytes[line * kLine];
    unused.fetch_add(sum, std::memory_order_relaxed);
  });
}

/// Removes all lines of the array from all caches, on processors with an instruction for it.
void flush(const NDArray& array) {
#if defined(__x86_64__)
  parallel_for((array.bytes() + kLine - 1) / kLine, [&](int64_t begin, int64_t end) {
    const char* bytes = static_cast<const char*>(array.data());
    for (int64_t line = begin; line < end; ++line) _mm_clflush(bytes + line * kLine);
  });
#else
  (void)array;
#endif
}

}  // namespace

WeightsIn weights_in(int64_t network_bytes, const Target& machine) {
  const int64_t near = machine.l2_bytes * std::max(1, machine.cores);
  if (network_bytes <= near / 2) return WeightsIn::NearCaches;
  const double last = kShareOfLastCache * static_cast<double>(machine.l3_bytes);
  return static_cast<double>(network_bytes) <= last ? WeightsIn::LastCache : WeightsIn::Memory;
}

NetworkCaches::NetworkCaches(int64_t network_bytes, const Target& machine)
    : where_(weights_in(network_bytes, machine)) {
  if (!active()) return;
  const int64_t near = machine.l2_bytes * std::max(1, machine.cores);
  elsewhere_ = NDArray::full({std::max<int64_t>(kTimesTheCache * near, kLine)}, u8, 1);
}

void NetworkCaches::before_call(std::span<const NDArray> weights, std::span<const NDArray> inputs) {
  if (!active()) return;
  read(elsewhere_);  // replaces the caches' contents, as other nodes would
  if (where_ == WeightsIn::Memory) {
    for (const NDArray& w : weights) flush(w);
  }
  for (const NDArray& a : inputs) read(a);
}

}  // namespace heddle::measuring
