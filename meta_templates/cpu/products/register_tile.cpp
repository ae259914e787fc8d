#include "cpu/products/register_tile.h"

#include <algorithm>

#include "cpu/products/contraction_rule.h"

namespace heddle::meta::cpu {
namespace {

constexpr int64_t kMostRows = 30, kMostVectors = 4;

// How fast a machine feeds a tile. Measured, see docs/internals/decisions/cpu-products.md.
struct Feed {
  // Bytes per cycle that a stream from L2 sustains beside the arithmetic (its peak is 32 or 64).
  double l2_bytes_per_cycle;
  // The number of accumulators below which the FMA units wait, and the loss for each one that is
  // missing. Where a vector is a whole line of memory, each load of the vector operand may wait for
  // L2, and more accumulators keep the units busy until the line arrives.
  double accumulators, loss_an_accumulator;
  // The share of the peak that the loads of a tile allow is most - a_load * (loads per
  // multiply-add). 14x32 (0.57 loads) reaches 99 %, 4x16 on AVX2 (0.75) 86 to 98 %.
  double most, a_load;
  // The cost of the smallest partial tile at an edge, relative to a whole tile. It has few
  // accumulators.
  double least_edge;
};
Feed feed_of(const ContractionProblem& p) {
  const CpuConstants& by = p.constants;
  const bool shared = p.row.exists && p.row_group > 1;  // not so in a depthwise convolution
  if (!shared || !vectors_are_lines(p.target))
    return {by.stream_bytes, 0, 0, by.feed_most, by.feed_a_load, by.least_edge};
  return {by.stream_bytes_of_lines, by.accumulators_of_lines, by.loss_an_accumulator,
          by.feed_most_of_lines,    by.feed_a_load_of_lines,  by.least_edge_of_lines};
}

// A single row reuses nothing, so only longer runs of the vector operand can gain.
constexpr int64_t kMostVectorsOfOneRow = 12;
// Where nothing is broadcast (depthwise convolution), more accumulators only displace the weights
// from the registers (144x56x56, 3x3: tiles of 4x2 take 119 us, 4x3 280, 7x1 122).
constexpr int64_t kMostAccumulatorsUnshared = 8, kMostVectorsUnshared = 2;

// The useful share of the time, given partial tiles at the edge. `least` is the cost of the
// smallest partial tile.
double edge_share(int64_t extent, int64_t tile, double least) {
  const int64_t rest = extent % tile;
  const double cost =
      static_cast<double>((extent - rest) / tile) +
      (rest ? least + (1 - least) * static_cast<double>(rest) / static_cast<double>(tile) : 0);
  return static_cast<double>(extent) / (static_cast<double>(tile) * cost);
}

// The number of rows that can form tiles: those that share the vector operand.
int64_t rows_of_tiles(const ContractionProblem& p) {
  if (p.row_group > 1 && p.row_group < p.rows) return p.row_group;
  constexpr int64_t kWholeTiles = 1 << 20;  // blocks of a chain have whole tiles
  return p.chained ? kWholeTiles : p.rows;
}

// Whether the vector operand does not stay in L3, which others use too.
bool streams_from_memory(const ContractionProblem& p) {
  return p.vector.bytes > std::max(2 * p.target.l2_bytes, p.target.l3_bytes / 6);
}

// Whether memory dominates the time: there are few multiply-adds per element, or the image does not
// stay in L3, which others use too. Long runs of the vector operand then gain more than reuse of
// the weights.
bool streams_vectors(const ContractionProblem& p) {
  return p.vector.bytes > 2 * p.target.l2_bytes &&
         (p.reuse < p.constants.few_uses || p.vector.bytes > p.target.l3_bytes / 6);
}

// The share of the time in which the FMA units do not wait for one of their results.
double in_flight(const ContractionProblem& p, double accumulators) {
  const Feed feed = feed_of(p);
  return std::min({1.0, accumulators / (p.constants.accumulators_an_adder * p.target.fma_units),
                   1 - feed.loss_an_accumulator * (feed.accumulators - accumulators)});
}

// The loss of a tile that needs several passes over the row operand where one is enough, because
// all columns fit in one tile. The row operand comes from L2 or from beyond.
double one_pass_share(const ContractionProblem& p, int64_t all_vectors, const RegisterTile& tile) {
  const bool near = p.row.batch_bytes < p.target.l2_bytes / 4;
  const bool few = p.row.exists && vectors_are_lines(p.target) && all_vectors <= kMostVectors;
  return few && !near && tile.vectors < all_vectors ? p.constants.second_pass : 1;
}

}  // namespace

bool vectors_are_lines(const Target& target) {
  constexpr int64_t kLine = 64;  // bytes
  return target.vector_bytes >= kLine;
}

bool fits_registers(const Target& target, const RegisterTile& tile) {
  const bool folded = tile.vectors == 1 && target.vector_bytes >= 64;
  return tile.rows * tile.vectors + tile.vectors + (folded ? 0 : 1) <= target.vector_registers;
}

double tile_score(const ContractionProblem& p, int64_t rows, const RegisterTile& tile) {
  const Feed machine = feed_of(p);
  const double accumulators = static_cast<double>(tile.rows * tile.vectors);
  const double loads = static_cast<double>(tile.rows + tile.vectors) / accumulators;
  double feed = std::min(1.0, machine.most - machine.a_load * loads);
  const int64_t all_vectors = ceil_div(p.cols, p.lanes);
  const double lanes_used =
      static_cast<double>(p.cols) / static_cast<double>(all_vectors * p.lanes);
  // A panel that exceeds L1 streams from L2, at a rate that its reuse by rows makes bearable.
  const int64_t panel =
      std::min(p.depth, p.constants.panel_steps) * tile.vectors * p.target.vector_bytes;
  if (panel > p.target.l1d_bytes / 2) {
    const double bytes_per_cycle = static_cast<double>(p.target.fma_units * p.target.vector_bytes) /
                                   static_cast<double>(tile.rows);
    feed *= std::min(1.0, machine.l2_bytes_per_cycle / bytes_per_cycle);
  }
  // Where no block of a panel stays near, a tile of a few rows waits for memory as long as a whole one.
  const bool far = !can_block_k(p) && p.row.exists && streams_from_memory(p);
  return in_flight(p, accumulators) * feed * one_pass_share(p, all_vectors, tile) *
         edge_share(rows, tile.rows, far ? 1 : machine.least_edge) *
         edge_share(all_vectors, tile.vectors, machine.least_edge) * lanes_used;
}

RegisterTile best_register_tile(const ContractionProblem& p, int64_t most) {
  const int64_t rows = rows_of_tiles(p), vectors = ceil_div(p.cols, p.lanes);
  if (!p.row.exists && streams_vectors(p) && p.cols >= 4 * p.lanes)
    return {std::min<int64_t>(2, rows), 4};
  const int64_t most_vectors = !p.row.exists ? kMostVectorsUnshared
                               : rows == 1   ? kMostVectorsOfOneRow
                                             : kMostVectors;
  if (!p.row.exists) most = kMostAccumulatorsUnshared;
  RegisterTile best;
  double score = -1;
  for (int64_t v = 1; v <= std::min(most_vectors, vectors); ++v) {
    if (!p.may_have(v)) continue;
    for (int64_t r = 1; r <= std::min(kMostRows, rows); ++r) {
      const RegisterTile tile{r, v};
      if (r * v > most || (p.row.exists && !fits_registers(p.target, tile))) continue;
      const double s = tile_score(p, rows, tile);
      if (s <= score + 1e-9) continue;
      score = s;
      best = tile;
    }
  }
  return best;
}

}  // namespace heddle::meta::cpu
