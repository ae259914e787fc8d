#include "driver/roof.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "heddle/driver/build.h"
#include "heddle/runtime/thread_pool.h"
#include "heddle/runtime/timer.h"
#include "schedule/groups/machine_rates.h"

namespace heddle::driver {
namespace {

constexpr int64_t kElements = 4096;  // of both arrays: in the first cache
constexpr int kSteps = 24;           // multiply-adds for each element, besides a load and a store
constexpr int64_t kLeastTraffic = int64_t{1} << 12, kMostTraffic = int64_t{128} << 20;

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

// The power of two of bytes whose traffic stands for that of `bytes`: what is longer than the
// longest does not fit into caches either.
int64_t traffic_of(double bytes) {
  int64_t traffic = kLeastTraffic;
  while (traffic < kMostTraffic && static_cast<double>(traffic) * 2 <= bytes) traffic *= 2;
  return traffic;
}

// Bytes per second, read and written, of a copy that moves `traffic` bytes again and again: that of
// all threads, or of one, which is faster where little is copied.
double bytes_per_second(int64_t traffic) {
  const NDArray memory = NDArray::zeros({traffic}, u8);
  auto* to = memory.data<uint8_t>();
  const uint8_t* from = to + traffic / 2;
  const auto copy = [&](int64_t begin, int64_t end) {
    std::memcpy(to + begin, from + begin, static_cast<size_t>(end - begin));
  };
  const double alone = measure([&] { copy(0, traffic / 2); }, 0.02).min_s;
  const double together = measure([&] { parallel_for(traffic / 2, copy); }, 0.03).min_s;
  return static_cast<double>(traffic) / std::min(alone, together);
}

/// The rates that were measured so far. What throws is measured again.
template <typename Key, typename Make>
double kept(std::map<Key, double>& known, const Key& key, const Make& make) {
  const auto at = known.find(key);
  return at != known.end() ? at->second : known.emplace(key, make()).first->second;
}

Roof measured(const Target& target, DataType dtype, int64_t traffic) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, std::string>, double> arithmetic;
  static std::map<std::pair<int, int64_t>, double> copies;
  const std::lock_guard lock(mutex);
  const int threads = num_threads();
  Roof roof;
  if (dtype == f32 || dtype == f64) {
    roof.flops_per_second = 2 * threads *
                            kept(arithmetic, {to_string(target), to_string(dtype)},
                                 [&] { return multiply_adds_per_second(target, dtype); });
  }
  roof.bytes_per_second =
      kept(copies, {threads, traffic}, [&] { return bytes_per_second(traffic); });
  return roof;
}

/// Multiply-adds of 16-bit floats that the matrix units of a multiprocessor do in a cycle, by NVIDIA's
/// data sheets; the most of its generation.
double matrix_multiply_adds(const Gpu& gpu) {
  const int sm = gpu.sm();
  return sm >= 100 ? 4096 : sm >= 90 ? 2048 : sm >= 80 ? 1024 : sm >= 70 ? 512 : 0;
}

Roof of_gpu(const Target& target, DataType dtype) {
  const MachineRates rates = rates_of(target);
  Roof roof;
  if (dtype == f32) roof.flops_per_second = rates.flops;
  if (dtype.is_small_float()) {
    const double of_16_bits =
        2e6 * target.gpu.sms * target.gpu.clock_mhz * matrix_multiply_adds(target.gpu);
    roof.flops_per_second = of_16_bits * 16 / dtype.bits;
  }
  roof.bytes_per_second = rates.memory();
  return roof;
}

}  // namespace

Roof roof_of(const Target& target, DataType dtype, double bytes) {
  if (target.is_cuda()) return of_gpu(target, dtype);
  if (!target.runs_here()) return {};
  return measured(target, dtype, traffic_of(bytes));
}

double least_seconds(const KernelWork& work) {
  if (!work.roof) return 0;
  const Roof roof = work.roof();
  double least = 0;
  if (roof.bytes_per_second > 0) least = work.bytes / roof.bytes_per_second;
  if (roof.flops_per_second > 0) least = std::max(least, work.flops / roof.flops_per_second);
  return least;
}

}  // namespace heddle::driver
