#include "dag/rewrites/gpu_rates.h"

#include <cmath>

namespace heddle::dag {
namespace {

// Multiply-adds of 16-bit operands that a multiprocessor's matrix units start in a cycle: Hopper's.
constexpr double kUnitLanes = 2048;
// Shares of the peak that products reach. (4096^3 on an H200: f32 50, tf32 400, f16 750 TFLOP/s.)
constexpr double kThreadShare = 0.74, kUnitShare = 0.68, kMemoryShare = 0.7;
constexpr double kNearGain = 1.6;  // of the second cache over memory

// The share of a last round of tiles of this size that is of use.
double use_of_rounds(double batch, double rows, double cols, double tile, double sms) {
  const double tiles = batch * std::ceil(rows / tile) * std::ceil(cols / tile);
  const double whole = batch * (rows / tile) * (cols / tile);
  return std::min(1.0, whole / (std::ceil(tiles / sms) * sms));
}

}  // namespace

double ProductRates::product(DataType type, double batch, double rows, double cols,
                             double depth) const {
  const double flops = 2 * batch * rows * cols * depth;
  if (type.bytes() == 2) return flops / units / use_of_rounds(batch, rows, cols, 128, sms);
  return flops / threads / use_of_rounds(batch, rows, cols, 64, sms);
}

double ProductRates::tf32_product(double batch, double rows, double cols, double depth) const {
  const double flops = 2 * batch * rows * cols * depth;
  return flops / (units / 2) / use_of_rounds(batch, rows, cols, 128, sms);
}

ProductRates product_rates(const Gpu& gpu) {
  const double cycles = gpu.sms * (gpu.clock_mhz * 1e6);
  ProductRates r;
  r.threads = 2 * gpu.f32_lanes * cycles * kThreadShare;
  r.units = 2 * kUnitLanes * cycles * kUnitShare;
  r.memory = gpu.bandwidth_gbs * 1e9 * kMemoryShare;
  r.near = r.memory * kNearGain;
  r.l2_bytes = static_cast<double>(gpu.l2_bytes);
  r.sms = gpu.sms;
  return r;
}

}  // namespace heddle::dag
