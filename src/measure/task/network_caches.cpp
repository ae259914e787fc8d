#include "measure/task/network_caches.h"

#include <algorithm>
#include <atomic>

#include "heddle/runtime/thread_pool.h"
#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace heddle::measuring {
namespace {

constexpr int64_t kLine = 64, kPage = 4096;
// The share of the last-level cache that weights may take. Activations and other data take the
// rest.
constexpr double kShareOfLastCache = 0.75;
// Reading this many times the size of a cache replaces all its contents. Policies that protect
// lines from long reads keep a part of them with less: with twice the size, convolutions of
// SqueezeNet on a Xeon took 0.92 of their time in the network, with 4 to 16 times the size 1.00.
constexpr int64_t kTimesTheCache = 4;

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

/// Whether a page is among `share` of all pages, which are spread evenly.
bool is_chosen(int64_t page, double share) {
  constexpr uint32_t kGolden = 2654435769U;
  constexpr double kAll = 4294967296.0;
  return static_cast<double>(static_cast<uint32_t>(page) * kGolden) < share * kAll;
}

/// Removes a share of the array from all caches, on processors with an instruction for it.
void flush(const NDArray& array, double share) {
#if defined(__x86_64__)
  parallel_for((array.bytes() + kPage - 1) / kPage, [&](int64_t begin, int64_t end) {
    const char* bytes = static_cast<const char*>(array.data());
    for (int64_t page = begin; page < end; ++page) {
      if (!is_chosen(page, share)) continue;
      const int64_t last = std::min((page + 1) * kPage, array.bytes());
      for (int64_t at = page * kPage; at < last; at += kLine) _mm_clflush(bytes + at);
    }
  });
#else
  (void)array, (void)share;
#endif
}

}  // namespace

WeightsIn weights_in(int64_t network_bytes, const Target& machine) {
  const int64_t near = machine.l2_bytes * std::max(1, machine.cores);
  if (network_bytes <= near / 2) return WeightsIn::NearCaches;
  const double last = kShareOfLastCache * static_cast<double>(machine.l3_bytes);
  return static_cast<double>(network_bytes) <= last ? WeightsIn::LastCache : WeightsIn::Memory;
}

NetworkCaches::NetworkCaches(int64_t network_bytes, const Target& machine,
                             std::optional<double> from_memory) {
  const WeightsIn where = weights_in(network_bytes, machine);
  active_ = where != WeightsIn::NearCaches;
  from_memory_ = from_memory.value_or(where == WeightsIn::Memory ? 1 : 0);
  if (!active()) return;
  const int64_t near = machine.l2_bytes * std::max(1, machine.cores);
  elsewhere_ = NDArray::full({std::max<int64_t>(kTimesTheCache * near, kLine)}, u8, 1);
}

void NetworkCaches::before_call(std::span<const NDArray> weights, std::span<const NDArray> inputs) {
  if (!active()) return;
  read(elsewhere_);  // replaces the caches' contents, as other nodes would
  if (from_memory_ > 0) {
    for (const NDArray& w : weights) flush(w, from_memory_);
  }
  for (const NDArray& a : inputs) read(a);
}

}  // namespace heddle::measuring
