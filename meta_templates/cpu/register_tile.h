// The tile of results that a contraction keeps in vector registers: how large, by rule.
#pragma once

#include "common/contraction_shape.h"

namespace heddle::meta {

// What a stream from L2 sustains beside the arithmetic (32 and 64 bytes a cycle at best).
inline constexpr double kL2BytesPerCycle = 17;

// How well a tile of mr rows x nv vectors keeps the multiply-adders busy, and how little of the
// edge tiles is lost. Measured figures behind it: docs/architecture.md, "register tiles".
inline double tile_score(const Target& target, int64_t mr, int64_t nv, int64_t lanes,
                         const ContractionShape& sh) {
  double accumulators = static_cast<double>(mr * nv);
  double in_flight = std::min(1.0, accumulators / (5.0 * target.fma_units));
  double loads = static_cast<double>(mr + nv) / accumulators;  // per multiply-add
  double feed = std::min(1.0, 1.08 - 0.12 * loads);
  auto edge = [&](int64_t extent, int64_t tile) {
    int64_t rest = extent % tile;
    // A partial tile costs nearly as much as a full one when it leaves too few accumulators.
    double cost = static_cast<double>((extent - rest) / tile) +
                  (rest ? 0.3 + 0.7 * static_cast<double>(rest) / static_cast<double>(tile) : 0);
    return static_cast<double>(extent) / (static_cast<double>(tile) * cost);
  };
  double lanes_used =
      static_cast<double>(sh.cols) / static_cast<double>(ceil_div(sh.cols, lanes) * lanes);
  // A panel that is longer than L1 streams from L2 at the rate that its rows of reuse allow.
  int64_t panel = std::min<int64_t>(sh.depth, 1024) * nv * target.vector_bytes;
  if (panel > target.l1d_bytes / 2) {
    double bytes_per_cycle =
        static_cast<double>(target.fma_units * target.vector_bytes) / static_cast<double>(mr);
    feed *= std::min(1.0, kL2BytesPerCycle / bytes_per_cycle);
  }
  return in_flight * feed * edge(sh.rows, mr) * edge(ceil_div(sh.cols, lanes), nv) * lanes_used;
}

struct Tile {
  int64_t mr = 1, nv = 1;
};

inline bool fits_registers(const Target& target, int64_t mr, int64_t nv) {
  // Accumulators, one row of the vector operand, one broadcast (folded into the multiply-add of a
  // 512-bit vector when it is used once).
  return mr * nv + nv + (nv == 1 && target.vector_bytes >= 64 ? 0 : 1) <= target.vector_registers;
}

/// Of at most `most` accumulators where something is broadcast.
inline Tile best_tile(const Target& target, int64_t lanes, const ContractionShape& sh,
                      int64_t most) {
  Tile best;
  double score = -1;
  // Nothing is broadcast (depthwise convolution): the accumulators hide the latency, and more of
  // them only evict the weights from the registers (144x56 3x3: 4x2 119 us, 4x3 280, 7x1 122).
  if (!sh.row) {
    // Memory is what takes the time of few multiply-adds an element, or of an image that L3 (others
    // use it too) does not keep: then long runs of it count for more than reuse of the weights.
    const int64_t bytes = sh.vector ? bytes_of(sh.vector->tensor) : 0;
    const bool streams =
        bytes > 2 * target.l2_bytes && (sh.reuse < 4 || bytes > target.l3_bytes / 6);
    if (streams && sh.cols >= 4 * lanes) return {std::min<int64_t>(2, sh.rows), 4};
    for (int64_t nv = 1; nv <= std::min<int64_t>(2, ceil_div(sh.cols, lanes)); ++nv) {
      for (int64_t mr = 1; mr * nv <= 8 && mr <= sh.rows; ++mr) {
        double s = tile_score(target, mr, nv, lanes, sh);
        if (s <= score + 1e-9) continue;
        score = s;
        best = {mr, nv};
      }
    }
    return best;
  }
  for (int64_t nv = 1; nv <= std::min<int64_t>(sh.rows == 1 ? 12 : 4, ceil_div(sh.cols, lanes));
       ++nv) {
    for (int64_t mr = 1; mr <= std::min<int64_t>(30, sh.rows); ++mr) {
      if (mr * nv > most || !fits_registers(target, mr, nv)) continue;
      double s = tile_score(target, mr, nv, lanes, sh);
      if (s > score + 1e-9) {
        score = s;
        best = {mr, nv};
      }
    }
  }
  return best;
}

}  // namespace heddle::meta
