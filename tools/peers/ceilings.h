// Measured ceilings of the machine, to state a kernel's speed as a share of the possible. Each
// figure is the best of several repetitions on `threads` std::threads that start together, so it is
// the rate of the machine at its best moment of the measurement.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace heddle::peers {

struct FmaPeak {
  double gflops = 0;        // a fused multiply-add counts as two
  std::string instruction;  // "avx512f", "avx2+fma", "sse" (a product and a sum) or "scalar"
};

// The instructions that a kernel may use: all of the CPU, or those of an older one.
enum class Simd { kBest, kAvx2, kSse };

// f32 multiply-adds on independent registers, no memory. The widest instructions the CPU has are
// tried, and AVX2 too (on some CPUs AVX-512 lowers the clock); the best one is returned.
FmaPeak fma_peak_f32(int threads, int repetitions = 40, Simd simd = Simd::kBest);

enum class Traffic {
  kRead,  // sum of the buffer
  kCopy,  // half the buffer to the other half, ordinary stores
  kCopyNonTemporal,
};

// Each is tried as one, four and eight streams of addresses side by side; the best one counts.
struct Bandwidth {
  // Gigabytes (1e9) per second that the program requested. A copy counts its reads and its writes.
  // The read that a cache does on its own before an ordinary store is not counted.
  double gb_per_second = 0;
};

// `bytes` is the whole working set of all threads together: each has its own even share, first
// touched by itself. 64 MiB is beyond the last-level cache of most single-socket machines.
inline constexpr size_t kDefaultTrafficBytes = size_t{64} << 20;
Bandwidth memory_bandwidth(Traffic kind, int threads, size_t bytes = kDefaultTrafficBytes,
                           int repetitions = 20);

// The same traffic, one pass at a time, so that it can be timed beside other work in the same
// rounds and in the same way: a machine whose speed changes from minute to minute is compared with
// itself. The number of streams, and ordinary or non-temporal stores for a copy, are tried when it
// is made.
class TrafficProbe {
 public:
  enum class Kind { kRead, kCopy };
  TrafficProbe(Kind kind, int threads, size_t bytes = kDefaultTrafficBytes);
  ~TrafficProbe();
  TrafficProbe(TrafficProbe&&) noexcept;
  // The share of one thread, 0 to threads - 1; all of them together are a pass.
  void pass(int thread) const;
  // Bytes that a pass moves, counted as for memory_bandwidth.
  double bytes() const;
  std::string text() const;  // "read, 8 streams"

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace heddle::peers
