#include "schedule/groups/machine_rates.h"

#include <algorithm>

namespace heddle {
namespace {

constexpr double kClock = 3e9;        // cycles a second of a CPU
constexpr double kBytesPerCycle = 8;  // of one core
constexpr double kStartSeconds = 2e-6;
// What matrix units do of two-byte elements more than other units do of floats.
constexpr double kMatrixUnits = 8;

}  // namespace

MachineRates rates_of(const Target& target) {
  if (target.is_cuda()) {
    const Gpu& gpu = target.gpu;
    const double flops = 2e6 * gpu.sms * gpu.f32_lanes * gpu.clock_mhz;
    return {flops, kMatrixUnits * flops, gpu.bandwidth_gbs * 1e9, kStartSeconds};
  }
  const double cores = std::max(1, target.cores);
  const auto flops = [&](int bytes) {
    return 2.0 * target.fma_units * target.vector_lanes(bytes) * kClock * cores;
  };
  return {flops(4), flops(2), kBytesPerCycle * kClock * cores, kStartSeconds};
}

}  // namespace heddle
