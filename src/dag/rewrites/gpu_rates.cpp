#include "dag/rewrites/gpu_rates.h"

#include <algorithm>
#include <cmath>

namespace heddle::dag {
namespace {

// Multiply-adds of 16-bit operands that a multiprocessor's matrix units start in a cycle: Hopper's.
constexpr double kUnitLanes = 2048;
// Shares of the peak that 27 products and convolutions reached on an H200: 42 TFLOP/s of f32 by
// threads, 730 of f16, and 300 of tf32 with sums of tiles in f32.
constexpr double kThreadShare = 0.64, kUnitShare = 0.68, kTf32Share = 0.56, kMemoryShare = 0.95;
constexpr double kNearGain = 1.6;  // of the second cache over memory
// The sides of a tile by matrix units, and by threads.
constexpr double kUnitRows = 128, kUnitCols = 64, kThreadSide = 64;

// The share of tiles of this size that is of use, and of rounds of them: where there are few, the
// depth is shared out too.
double use_of_tiles(double batch, double rows, double cols, double tile_rows, double tile_cols,
                    double sms) {
  constexpr double kLeastOfRounds = 0.5;
  const double up = std::ceil(rows / tile_rows), across = std::ceil(cols / tile_cols);
  const double of_tiles = rows * cols / (up * tile_rows * across * tile_cols);
  const double tiles = batch * up * across;
  return of_tiles * std::max(kLeastOfRounds, tiles / (std::ceil(tiles / sms) * sms));
}

}  // namespace

double ProductRates::product(DataType type, double batch, double rows, double cols,
                             double depth) const {
  const double flops = 2 * batch * rows * cols * depth;
  if (type.bytes() == 2)
    return flops / units / use_of_tiles(batch, rows, cols, kUnitRows, kUnitCols, sms);
  return flops / threads / use_of_tiles(batch, rows, cols, kThreadSide, kThreadSide, sms);
}

double ProductRates::tf32_product(double batch, double rows, double cols, double depth) const {
  const double flops = 2 * batch * rows * cols * depth;
  return flops / tf32 / use_of_tiles(batch, rows, cols, kUnitRows, kUnitCols, sms);
}

ProductRates product_rates(const Gpu& gpu) {
  const double cycles = gpu.sms * (gpu.clock_mhz * 1e6);
  ProductRates r;
  r.threads = 2 * gpu.f32_lanes * cycles * kThreadShare;
  r.units = 2 * kUnitLanes * cycles * kUnitShare;
  r.tf32 = kUnitLanes * cycles * kTf32Share;
  r.memory = gpu.bandwidth_gbs * 1e9 * kMemoryShare;
  r.near = r.memory * kNearGain;
  r.l2_bytes = static_cast<double>(gpu.l2_bytes);
  r.sms = gpu.sms;
  return r;
}

}  // namespace heddle::dag
