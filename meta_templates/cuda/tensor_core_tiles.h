// Which tile of a product a block of threads takes on the tensor cores: one rule, from waves,
// occupancy, shared memory and L2, apart from the recipe that uses it (cuda_tensor_core.cpp).
#pragma once

#include "cuda/common.h"
#include "cuda/tensor_core.h"

namespace heddle::meta {

/// A product of matrices: what the choice of tiles rests on.
struct ProductSize {
  int64_t rows = 1, cols = 1, depth = 1, batch = 1;
  int64_t pack = 2;  ///< operands in a register of 32 bits
};

/// What a block computes, in tiles of one mma, and in how many parts the depth is cut.
struct TensorCoreTile {
  int64_t row_tiles = 1, row_warps = 1, col_tiles = 1, col_warps = 1, parts = 1;
  int64_t rows() const { return kRows * row_tiles * row_warps; }
  int64_t cols() const { return kCols * col_tiles * col_warps; }
  int64_t warps() const { return row_warps * col_warps; }
};

/// Of shared memory, for the operands of `k` steps of the reduction.
inline int64_t tile_bytes(int64_t rows, int64_t cols, int64_t k, int64_t pack) {
  const int64_t pad = std::max<int64_t>(8, 4 * pack);
  return (std::max(rows * (k + pad), k * (rows + pad)) +
          std::max(cols * (k + pad), k * (cols + pad))) *
         4 / pack;
}

/// How many tiles of `tile_k` mma of depth fit the shared memory of a block.
inline int64_t most_stages(const TensorCoreTile& t, int64_t tile_k, int64_t pack, const Gpu& gpu) {
  return gpu.smem_per_block / tile_bytes(t.rows(), t.cols(), 8 * pack * tile_k, pack);
}

/// Cycles of the whole with tile `t`: the rounds that the busiest SM runs, each as long as
/// mma.sync, L2 or shared memory needs for its part of the reduction, whichever is slowest.
inline double tensor_core_cycles(const ProductSize& p, const TensorCoreTile& t, const Gpu& gpu) {
  const double blocks = static_cast<double>(ceil_div(p.rows, t.rows()) *
                                            ceil_div(p.cols, t.cols()) * p.batch * t.parts);
  const double per_sm = blocks / static_cast<double>(gpu.sms);
  const double rounds = per_sm > 8 ? per_sm : std::ceil(per_sm);
  const double r = static_cast<double>(t.rows()), c = static_cast<double>(t.cols());
  const double warps = static_cast<double>(t.warps()) * std::clamp(rounds, 1.0, 2.0);
  const double bytes = 4 / static_cast<double>(p.pack);
  const double mma = r * c * bytes / 2600 * (1 + 1.5 / warps);
  // An SM gets 25 bytes a cycle where enough are under way: three tiles of 64 steps, over the
  // 1100 cycles that memory takes. Lines of which a block reads a half cost it the whole.
  const double under_way = 3 * 64 * (r + c) * bytes * std::clamp(rounds, 1.0, 2.0);
  const double half_lines = c * bytes < 128 ? 1.5 : 1;
  const double l2 = (r + c) * bytes * half_lines / std::min(25.0, under_way / 1100);
  const double warp_r = static_cast<double>(kRows * t.row_tiles),
               warp_c = static_cast<double>(kCols * t.col_tiles);
  const double shared = (warp_r + warp_c) * bytes * static_cast<double>(t.warps()) / 128;
  const double most = std::max({mma, l2, shared});
  const double step = most + 0.25 * (mma + l2 + shared - most);
  const double depth = static_cast<double>(p.depth / t.parts);
  const double sum = t.parts > 1 ? 4000 + static_cast<double>(p.rows * p.cols * p.batch * t.parts) *
                                              8 / (25.0 * gpu.sms)
                                 : 0;
  return rounds * (step * depth + 1500) + sum;
}

/// The tile of the least cycles; the first of equals.
inline TensorCoreTile choose_tensor_core_tile(const ProductSize& p, const Gpu& gpu) {
  const int64_t most_warps = std::min<int64_t>(8, most_block_threads(gpu) / kWarp);
  TensorCoreTile best;
  double least = -1;
  const auto consider = [&](TensorCoreTile t) {
    if (t.rows() >= 2 * p.rows && t.rows() > kRows) return;
    if (t.cols() >= 2 * p.cols && t.cols() > kCols) return;
    if (t.warps() > most_warps || t.row_tiles * t.col_tiles > 32 ||
        most_stages(t, 1, p.pack, gpu) < 2)
      return;
    for (int64_t parts : {1, 2, 4, 8, 16, 32, 64, 128}) {
      if (parts > 1 && p.depth / parts < 128) break;
      t.parts = parts;
      const double cycles = tensor_core_cycles(p, t, gpu);
      if (least >= 0 && cycles >= least * 0.999) continue;
      least = cycles;
      best = t;
    }
  };
  for (int64_t rt : {1, 2, 4}) {
    for (int64_t rw : {1, 2, 4}) {
      for (int64_t ct : {1, 2, 4, 8}) {
        for (int64_t cw : {1, 2, 4}) consider({rt, rw, ct, cw, 1});
      }
    }
  }
  return best;
}

}  // namespace heddle::meta
