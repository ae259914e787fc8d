#include "driver/roof.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <tuple>

#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"

namespace heddle {
namespace {

constexpr int64_t kElements = 4096;  // of both arrays: in the first cache
constexpr int kSteps = 24;           // multiply-adds for each element, besides a load and a store
constexpr int64_t kTrafficBytes = int64_t{128} << 20;

// Multiply-adds per second of one core with code for `target`. The chains of different vectors are
// independent, so that all units are busy in spite of their latency.
double multiply_adds_per_second(const Target& target, DataType dtype) {
  const ScopedThreads one(1);
  const Tensor x = placeholder({kElements}, dtype, "x");
  const Tensor y = compute({kElements}, [&](Axis i) {
    Expr value = x(i);
    for (int n = 0; n < kSteps; ++n) {
      value = value * make_float(dtype, 0.75) + make_float(dtype, 0.125);
    }
    return value;
  });
  Schedule schedule({y}, target);
  StageRef stage = schedule[y];
  auto [outer, inner] = stage.split(stage.axis(0), target.vector_lanes(dtype.bytes()));
  auto [outermost, several] = stage.split(outer, 4);
  stage.vectorize(inner);
  stage.unroll(several);
  const Kernel kernel = build(schedule, {x, y}, {.name = "roof"});
  const NDArray in = NDArray::zeros({kElements}, dtype), out = NDArray::zeros({kElements}, dtype);
  const Measurement m = measure([&] { kernel(in, out); }, 0.02);
  return kElements * kSteps / m.min_s;
}

// Bytes per second, read and written, of a copy that all threads share.
double bytes_per_second() {
  const NDArray memory = NDArray::zeros({kTrafficBytes}, u8);
  auto* to = memory.data<uint8_t>();
  const uint8_t* from = to + kTrafficBytes / 2;
  const Measurement m = measure(
      [&] {
        parallel_for(kTrafficBytes / 2, [&](int64_t begin, int64_t end) {
          std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
        });
      },
      0.05);
  return static_cast<double>(kTrafficBytes) / m.min_s;
}

Roof measured(const Target& target, DataType dtype, int threads) {
  Roof roof;
  if (dtype == f32 || dtype == f64) {
    roof.flops_per_second = 2 * threads * multiply_adds_per_second(target, dtype);
  }
  roof.bytes_per_second = bytes_per_second();
  return roof;
}

Roof of_gpu(const Gpu& gpu, DataType dtype) {
  Roof roof;
  if (dtype == f32) {
    roof.flops_per_second = 2.0 * gpu.sms * gpu.f32_lanes * gpu.clock_mhz * 1e6;
  }
  roof.bytes_per_second = gpu.bandwidth_gbs * 1e9;
  return roof;
}

}  // namespace

Roof roof_of(const Target& target, DataType dtype) {
  if (target.is_cuda()) return of_gpu(target.gpu, dtype);
  if (!target.runs_here()) return {};
  using Key = std::tuple<std::string, std::string, int>;
  static std::mutex mutex;
  static std::map<Key, Roof> known;
  const int threads = num_threads();
  const std::lock_guard lock(mutex);
  const auto [at, is_new] = known.try_emplace(Key(to_string(target), to_string(dtype), threads));
  if (is_new) {
    try {
      at->second = measured(target, dtype, threads);
    } catch (...) {
      known.erase(at);
      throw;
    }
  }
  return at->second;
}

}  // namespace heddle
