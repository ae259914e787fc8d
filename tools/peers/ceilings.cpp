#include "peers/ceilings.h"

#include <algorithm>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <new>
#include <thread>
#include <vector>

#include "peers/cpu_features.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace heddle::peers {
namespace {

using Clock = std::chrono::steady_clock;

// Runs body(thread) on all threads `repetitions` times, released together each time. Returns the
// shortest time in seconds from the release to the end of the last thread. setup(thread) runs
// before, untimed. A repetition should last milliseconds, and all together at least a tenth of a
// second: waking from a barrier takes microseconds, and a new thread may share a core with another
// one until the system has moved it.
double best_parallel_seconds(int threads, int repetitions, const std::function<void(int)>& setup,
                             const std::function<void(int)>& body) {
  std::barrier sync(threads);
  double best = 1e30;
  std::vector<Clock::time_point> starts(static_cast<size_t>(threads));
  auto work = [&](int thread) {
    setup(thread);
    for (int repetition = 0; repetition < repetitions; ++repetition) {
      sync.arrive_and_wait();
      starts[static_cast<size_t>(thread)] = Clock::now();
      body(thread);
      sync.arrive_and_wait();
      if (thread == 0) {
        // The time starts with the first thread, so that a thread 0 that wakes late does not
        // shorten it.
        const auto start = *std::min_element(starts.begin(), starts.end());
        best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
      }
      sync.arrive_and_wait();  // no start is overwritten before it has been read
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(work, thread);
  work(0);
  for (std::thread& other : others) other.join();
  return best;
}

// --- multiply-add peak -------------------------------------------------------------------------

constexpr int kChains = 12;               // more than two units times a latency of four or five
constexpr int64_t kFmaSteps = 2'000'000;  // takes some milliseconds

// Uses a result so that the optimizer cannot remove it.
inline void keep(float value) {
  volatile float sink = value;
  (void)sink;
}

#if defined(__x86_64__)
// The empty asm keeps each chain in a register and its value unknown, so that the multiply-adds
// cannot be merged or moved out of the loop. All loops over `sums` are unrolled completely.
// Otherwise GCC keeps the array in memory, and the loop measures store forwarding.
__attribute__((target("avx2,fma"))) void fma_loop_avx2() {
  __m256 sums[kChains];
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(0.001f * static_cast<float>(i));
  const __m256 scale = _mm256_set1_ps(0.999f);
  const __m256 step = _mm256_set1_ps(0.0001f);
  for (int64_t n = 0; n < kFmaSteps; ++n) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) {
      sums[i] = _mm256_fmadd_ps(sums[i], scale, step);
      asm volatile("" : "+x"(sums[i]));
    }
  }
  __m256 total = sums[0];
#pragma GCC unroll 16
  for (int i = 1; i < kChains; ++i) total = _mm256_add_ps(total, sums[i]);
  keep(_mm256_cvtss_f32(total));
}

__attribute__((target("avx512f"))) void fma_loop_avx512() {
  __m512 sums[kChains];
#pragma GCC unroll 16
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(0.001f * static_cast<float>(i));
  const __m512 scale = _mm512_set1_ps(0.999f);
  const __m512 step = _mm512_set1_ps(0.0001f);
  for (int64_t n = 0; n < kFmaSteps; ++n) {
#pragma GCC unroll 16
    for (int i = 0; i < kChains; ++i) {
      sums[i] = _mm512_fmadd_ps(sums[i], scale, step);
      asm volatile("" : "+v"(sums[i]));
    }
  }
  __m512 total = sums[0];
#pragma GCC unroll 16
  for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, sums[i]);
  keep(_mm512_cvtss_f32(total));
}

constexpr int kSseChains = 14;  // a product and a sum take longer than one instruction for both

// Compiled for the baseline: no VEX prefix, and products and sums are instructions of their own.
void multiply_add_loop_sse() {
  __m128 sums[kSseChains];
#pragma GCC unroll 16
  for (int i = 0; i < kSseChains; ++i) sums[i] = _mm_set1_ps(0.001f * static_cast<float>(i));
  const __m128 scale = _mm_set1_ps(0.999f);
  const __m128 step = _mm_set1_ps(0.0001f);
  for (int64_t n = 0; n < kFmaSteps; ++n) {
#pragma GCC unroll 16
    for (int i = 0; i < kSseChains; ++i) {
      sums[i] = _mm_add_ps(_mm_mul_ps(sums[i], scale), step);
      asm volatile("" : "+x"(sums[i]));
    }
  }
  __m128 total = sums[0];
#pragma GCC unroll 16
  for (int i = 1; i < kSseChains; ++i) total = _mm_add_ps(total, sums[i]);
  keep(_mm_cvtss_f32(total));
}
#endif

void multiply_add_loop_scalar() {
  float sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = 0.001f * static_cast<float>(i);
  for (int64_t n = 0; n < kFmaSteps; ++n) {
    for (int i = 0; i < kChains; ++i) sums[i] = sums[i] * 0.999f + 0.0001f;
  }
  float total = 0;
  for (float sum : sums) total += sum;
  keep(total);
}

FmaPeak measure_peak(int threads, int repetitions, const char* name, int lanes, void (*loop)(),
                     int chains = kChains) {
  const double seconds =
      best_parallel_seconds(threads, repetitions, [&](int) { loop(); }, [&](int) { loop(); });
  return {2.0 * lanes * chains * kFmaSteps * threads / seconds * 1e-9, name};
}

// --- memory traffic ----------------------------------------------------------------------------

struct AlignedDelete {
  void operator()(float* pointer) const { std::free(pointer); }
};
using Buffer = std::unique_ptr<float[], AlignedDelete>;

Buffer aligned_floats(size_t count) {
  // Huge pages are requested, because a program that uses them must not exceed the ceiling.
  constexpr size_t kHugePage = size_t{2} << 20;
  const size_t bytes = (count * sizeof(float) + kHugePage - 1) / kHugePage * kHugePage;
  auto* pointer = static_cast<float*>(std::aligned_alloc(kHugePage, bytes));
  if (pointer == nullptr) throw std::bad_alloc();
#if defined(__linux__)
  madvise(pointer, bytes, MADV_HUGEPAGE);  // a refusal changes nothing
#endif
  return Buffer(pointer);
}

// The buffer is walked as `kStreams` equal parts side by side. Some memory systems, Zen's among
// them, give one core far more than one stream of addresses can draw. `count` is a multiple of
// kStreams * kBlock floats, and pointers are 64-byte aligned.
constexpr size_t kBlock = 16;
constexpr size_t kMostStreams = 8;

#if defined(__x86_64__)
#define HEDDLE_TARGET_AVX2 __attribute__((target("avx2")))

template <size_t kStreams>
HEDDLE_TARGET_AVX2 void read_floats(const float* data, size_t count) {
  const size_t part = count / kStreams;
  __m256 sums[8];
#pragma GCC unroll 8
  for (size_t k = 0; k < 8; ++k) sums[k] = _mm256_setzero_ps();
  for (size_t i = 0; i < part; i += kBlock) {
#pragma GCC unroll 8
    for (size_t k = 0; k < kStreams; ++k) {
      const float* from = data + k * part + i;
      sums[k % 4] = _mm256_add_ps(sums[k % 4], _mm256_load_ps(from));
      sums[k % 4 + 4] = _mm256_add_ps(sums[k % 4 + 4], _mm256_load_ps(from + 8));
    }
  }
  __m256 total = sums[0];
#pragma GCC unroll 8
  for (size_t k = 1; k < 8; ++k) total = _mm256_add_ps(total, sums[k]);
  keep(_mm256_cvtss_f32(total));
}

template <size_t kStreams, bool kNonTemporal>
HEDDLE_TARGET_AVX2 void copy_floats(const float* from, float* to, size_t count) {
  const size_t part = count / kStreams;
  for (size_t i = 0; i < part; i += kBlock) {
#pragma GCC unroll 8
    for (size_t k = 0; k < kStreams; ++k) {
      const size_t at = k * part + i;
      const __m256 low = _mm256_load_ps(from + at);
      const __m256 high = _mm256_load_ps(from + at + 8);
      if constexpr (kNonTemporal) {
        _mm256_stream_ps(to + at, low);
        _mm256_stream_ps(to + at + 8, high);
      } else {
        _mm256_store_ps(to + at, low);
        _mm256_store_ps(to + at + 8, high);
      }
    }
    asm volatile("" ::: "memory");  // prevents a call of memcpy, which may use other stores
  }
  _mm_sfence();
}
#else
template <size_t kStreams>
void read_floats(const float* data, size_t count) {
  float sums[kBlock] = {};
  for (size_t i = 0; i < count; i += kBlock) {
    for (size_t j = 0; j < kBlock; ++j) sums[j] += data[i + j];
  }
  for (float sum : sums) keep(sum);
}
template <size_t kStreams, bool kNonTemporal>
void copy_floats(const float* from, float* to, size_t count) {
  std::copy_n(from, count, to);
}
#endif

template <size_t kStreams>
void make_traffic(Traffic kind, float* data, size_t count) {
  const size_t half = count / 2;
  switch (kind) {
    case Traffic::kRead: return read_floats<kStreams>(data, count);
    case Traffic::kCopy: return copy_floats<kStreams, false>(data, data + half, half);
    case Traffic::kCopyNonTemporal: return copy_floats<kStreams, true>(data, data + half, half);
  }
}

// The number of floats of one thread. Both halves of a share must divide evenly among the streams.
size_t share_of(size_t bytes, int threads) {
  constexpr size_t kStep = 2 * kBlock * kMostStreams;
  return std::max(kStep, bytes / sizeof(float) / static_cast<size_t>(threads) / kStep * kStep);
}

}  // namespace

FmaPeak fma_peak_f32(int threads, int repetitions, Simd simd) {
  threads = std::max(threads, 1);
  std::vector<FmaPeak> peaks;
#if defined(__x86_64__)
  if (cpu_features().avx512f && simd == Simd::kBest) {
    peaks.push_back(measure_peak(threads, repetitions, "avx512f", 16, fma_loop_avx512));
  }
  if (simd == Simd::kSse) {
    peaks.push_back(
        measure_peak(threads, repetitions, "sse", 4, multiply_add_loop_sse, kSseChains));
  } else if (cpu_features().avx2_fma) {
    peaks.push_back(measure_peak(threads, repetitions, "avx2+fma", 8, fma_loop_avx2));
  }
#endif
  if (peaks.empty()) {
    peaks.push_back(measure_peak(threads, repetitions, "scalar", 1, multiply_add_loop_scalar));
  }
  return *std::max_element(peaks.begin(), peaks.end(),
                           [](const FmaPeak& a, const FmaPeak& b) { return a.gflops < b.gflops; });
}

Bandwidth memory_bandwidth(Traffic kind, int threads, size_t bytes, int repetitions) {
  threads = std::max(threads, 1);
  const size_t share = share_of(bytes, threads);
  const Buffer buffer = aligned_floats(share * static_cast<size_t>(threads));
  // A pass over a small working set takes less time than the barrier, so a repetition has several
  // passes.
  constexpr size_t kBytesPerRepetition = size_t{64} << 20;
  const size_t share_bytes = share * sizeof(float);
  const size_t passes =
      std::max<size_t>(1, kBytesPerRepetition / (share_bytes * static_cast<size_t>(threads)));

  auto setup = [&](int thread) {
    std::fill_n(buffer.get() + share * static_cast<size_t>(thread), share, 0.25f);
  };
  double seconds = 1e30;
  for (const auto traffic : {make_traffic<1>, make_traffic<4>, make_traffic<kMostStreams>}) {
    auto body = [&](int thread) {
      for (size_t pass = 0; pass < passes; ++pass) {
        traffic(kind, buffer.get() + share * static_cast<size_t>(thread), share);
      }
    };
    seconds = std::min(seconds, best_parallel_seconds(threads, repetitions, setup, body));
  }
  const double moved = static_cast<double>(share_bytes) * threads * static_cast<double>(passes);
  return {moved / seconds * 1e-9};
}

struct TrafficProbe::Impl {
  Traffic kind;
  int threads;
  size_t share;  // floats of one thread
  int streams = 1;
  Buffer buffer;

  void pass(int thread) const {
    float* data = buffer.get() + share * static_cast<size_t>(thread);
    switch (streams) {
      case 1: return make_traffic<1>(kind, data, share);
      case 4: return make_traffic<4>(kind, data, share);
      default: return make_traffic<kMostStreams>(kind, data, share);
    }
  }
};

TrafficProbe::TrafficProbe(Kind kind, int threads, size_t bytes) {
  threads = std::max(threads, 1);
  const size_t share = share_of(bytes, threads);
  impl_ = std::make_unique<Impl>(Impl{Traffic::kRead, threads, share, 1,
                                      aligned_floats(share * static_cast<size_t>(threads))});
  std::fill_n(impl_->buffer.get(), share * static_cast<size_t>(threads), 0.25f);
  std::vector<Traffic> kinds{Traffic::kRead};
  if (kind == Kind::kCopy) kinds = {Traffic::kCopy, Traffic::kCopyNonTemporal};
  double least = 1e30;
  Traffic best_kind = kinds[0];
  int best_streams = 1;
  for (const Traffic k : kinds) {
    for (const int streams : {1, 4, static_cast<int>(kMostStreams)}) {
      impl_->kind = k;
      impl_->streams = streams;
      const double seconds = best_parallel_seconds(
          threads, 7, [&](int t) { impl_->pass(t); }, [&](int t) { impl_->pass(t); });
      if (seconds >= least) continue;
      least = seconds;
      best_kind = k;
      best_streams = streams;
    }
  }
  impl_->kind = best_kind;
  impl_->streams = best_streams;
}
TrafficProbe::~TrafficProbe() = default;
TrafficProbe::TrafficProbe(TrafficProbe&&) noexcept = default;

void TrafficProbe::pass(int thread) const { impl_->pass(thread); }

double TrafficProbe::bytes() const {
  return static_cast<double>(impl_->share * sizeof(float)) * impl_->threads;
}

std::string TrafficProbe::text() const {
  const char* name = impl_->kind == Traffic::kRead   ? "read"
                     : impl_->kind == Traffic::kCopy ? "copy"
                                                     : "non-temporal copy";
  return std::string(name) + ", " + std::to_string(impl_->streams) +
         (impl_->streams == 1 ? " stream" : " streams");
}

}  // namespace heddle::peers
