// Cuts a long sum of products into parts (decompose-K, split-K). The partial sums are a contraction
// with one more batch axis, and a second stage adds them.
//
//   result[i, j] = sum over k < K of f(i, j, k)                                     (before)
//
//   P[q, i, j]   = sum over k < L of f(i, j, q * L + k)         L = K / parts, rounded down
//   S[i, j]      = sum over q < parts of P[q, i, j]                                 (after)
//   T[i, j]      = sum over k < K - parts * L of f(i, j, parts * L + k)    where parts are uneven
//   result[i, j] = T[i, j] + S[i, j]
//
// Sums are cut into parts in three places, which the tuner compares:
//   - `reduction = split_k` of the template for CPUs: a step of the schedule, one part for each
//     core (knob k_part); the parts share the blocks, packing and tiles of the whole sum;
//   - `reduction = split_k` of the templates for GPUs: the same, parts by waves of blocks;
//   - this rule: the parts are a batch axis of a graph. There may be any number of them, each with
//     the blocks, packing and tiles of a contraction of its own, and the epilogue is fused with
//     their sum. It is the form for parts that stay in a core's cache.
// Sums of sums do not round worse than one long sum.
#include <algorithm>
#include <cmath>
#include <optional>

#include "dag/patterns/convolution.h"
#include "dag/rewrites/rewrite_parts.h"
#include "heddle/dag/alternatives.h"
#include "heddle/target/product_tasks.h"

namespace heddle {
namespace {

constexpr int64_t kShortSum = 1024;      // terms; shorter sums do not gain
constexpr int64_t kShortestPart = 64;    // terms; a shorter part does not pay for adding it
constexpr int64_t kManyResults = 65536;  // results; more are enough tasks for any machine
constexpr int64_t kEvenTerms = 16;       // terms; multiples of it fill vectors and unrolled loops
constexpr int64_t kBlockTile = 64;       // rows and columns of a block of a GPU, roughly

int64_t depth_of(const Operation& op) {
  return op.reduce_axes()[dag::longest_reduction(op)].extent();
}

WhyNot why_not_at_all(const RewriteSite& site) {
  const Access* operands[2];
  if (WhyNot why = dag::match_contraction(site.dag, site.stage, operands); !why.empty()) return why;
  const int64_t k = depth_of(site.op());
  if (k < kShortSum) return WhyNot::other_kind("a long sum: " + std::to_string(k) + " terms");
  const int64_t points = site.dag.info(site.stage).points;
  if (points > kManyResults)
    return "its " + std::to_string(points) + " results are enough to share out";
  return "";
}

WhyNot why_not(const RewriteSite& site) {
  if (WhyNot why = why_not_at_all(site); !why.empty()) return why;
  const int64_t k = depth_of(site.op()), parts = site.values[0];
  if (parts < 2) return std::to_string(parts) + " parts divide nothing";
  if (k / parts < kShortestPart)
    return "its parts would have fewer than " + std::to_string(kShortestPart) + " terms";
  return "";
}

/// Bytes of both operands that one step of the cut axis reads.
int64_t bytes_a_step(const RewriteSite& site) {
  const Access* operands[2];
  dag::match_contraction(site.dag, site.stage, operands);
  int64_t bytes = 0;
  for (const Access* a : operands) {
    int64_t n = a->tensor.dtype().bytes();
    for (const Axis& x : site.op().axes()) n *= a->depends_on(x) ? x.extent() : 1;
    bytes += n;
  }
  return std::max<int64_t>(1, bytes);
}

/// The number of parts near `count` for which all are even and long vectors fit, or `count`.
int64_t even_near(int64_t count, int64_t k) {
  for (int64_t by = 0; 4 * by <= count; ++by) {
    for (const int64_t n : {count + by, count - by}) {
      if (n >= 2 && k % (n * kEvenTerms) == 0) return n;
    }
  }
  return count;
}

/// The number of parts for which half of a core's L2 holds a part of both operands.
int64_t parts_for_cache(const RewriteSite& site, const Target& target) {
  const int64_t steps = std::max<int64_t>(kShortestPart, target.l2_bytes / 4 / bytes_a_step(site));
  const int64_t cores = std::max(1, target.cores);
  return ceil_div(ceil_div(depth_of(site.op()), steps), cores) * cores;
}

std::vector<std::vector<int64_t>> suited(const RewriteSite& site, const Target& target) {
  if (!why_not_at_all(site).empty()) return {{2}};  // any number shows the reason
  std::vector<int64_t> counts;
  if (target.is_cuda()) {
    // Candidates are one and two waves of blocks.
    const double tiles = std::max(
        1.0, static_cast<double>(site.dag.info(site.stage).points) / (kBlockTile * kBlockTile));
    const auto wave = std::max<int64_t>(2, static_cast<int64_t>(target.gpu.sms / tiles));
    counts = {wave, 2 * wave};
  } else {
    const int64_t cores = std::max(1, target.cores);
    counts = {std::max<int64_t>(2, cores), 4 * cores, parts_for_cache(site, target)};
  }
  const int64_t k = depth_of(site.op()), most = std::max<int64_t>(2, k / kShortestPart);
  std::vector<std::vector<int64_t>> out;
  for (const int64_t n : counts) out.push_back({even_near(std::clamp<int64_t>(n, 2, most), k)});
  return out;
}

/// Rows and columns of a product without batch axes. The columns belong to the operand that the
/// last axis indexes, the rows to the other. Nullopt where there is a batch axis or operands are
/// narrow.
struct Sides {
  double rows = 1, cols = 1;
};
std::optional<Sides> sides_of(const RewriteSite& site) {
  const Access* operands[2];
  dag::match_contraction(site.dag, site.stage, operands);
  const std::vector<Axis>& axes = site.op().axes();
  if (axes.empty()) return std::nullopt;
  const DataType type = site.op().output(0).dtype();
  if (operands[0]->tensor.dtype() != type || operands[1]->tensor.dtype() != type)
    return std::nullopt;  // narrow products have other instructions and tiles
  const int vector = operands[0]->depends_on(axes.back()) ? 0 : 1;
  Sides out;
  for (const Axis& a : axes) {
    if (a.extent() == 1) continue;
    const bool in_rows = operands[1 - vector]->depends_on(a),
               in_cols = operands[vector]->depends_on(a);
    if (in_rows == in_cols) return std::nullopt;
    (in_rows ? out.rows : out.cols) *= static_cast<double>(a.extent());
  }
  return out;
}

// The register tile that most rules choose (rows, vectors).
constexpr double kTileRows = 8, kTileVectors = 2;

/// The time of rows of tiles that each read a panel of the whole sum from beyond L2, over the time
/// of parts that stay in L2. Both count cycles of a core for arithmetic and for bytes moved.
double gain_of_caches(const RewriteSite& site, const Target& target) {
  const std::optional<Sides> sides = sides_of(site);
  if (!sides) return 1;
  const CpuConstants& by = dag::cpu_constants(site);
  const double m = sides->rows, n = sides->cols, parts = static_cast<double>(site.values[0]),
               cores = std::max(1, target.cores), l2 = static_cast<double>(target.l2_bytes);
  const double bytes = site.op().output(0).dtype().bytes();
  double k = 1;
  for (const Axis& a : site.op().reduce_axes()) k *= static_cast<double>(a.extent());
  const double lanes = std::max(1.0, target.vector_bytes / bytes);
  if (has_few_tasks(target, by, m * n, lanes)) return 1;  // the template cuts it
  // Tiles of so narrow a product are half empty, and cutting it into parts gains nothing (256 x
  // 16).
  if (n < kTileVectors * lanes) return 1;
  if (m * n >= kManyResults || (m + n) * (k / parts) * bytes > l2 * by.split_l2) return 1;
  const double panel = k * std::min(n, kTileVectors * lanes) * bytes;
  // The next row of tiles finds the panel in L2. Of few results the template cuts the sum where panels are near.
  const bool few = m * n <= static_cast<double>(by.deep_results);
  if (panel <= l2 * (few ? by.split_l2 : by.split_panel_l2)) return 1;
  const double row_tiles = std::ceil(std::ceil(m / kTileRows) / cores);
  const double rows = row_tiles * kTileRows, col_tiles = std::ceil(n / (kTileVectors * lanes));
  const double arithmetic = 2 * m * n * k / cores / (2 * target.fma_units * lanes * by.split_share);
  const double far = n * k * bytes * row_tiles + std::min(rows, m) * k * bytes * col_tiles;
  const double far_in_parts = (m + n) * k * bytes / cores;
  const double partial = 2 * parts * m * n * bytes / cores;
  return (arithmetic + far / by.far_bytes) /
         (arithmetic + far_in_parts / by.far_bytes + partial / by.near_bytes);
}

RewriteEstimate estimate(const RewriteSite& site, const Target& target) {
  if (!target.is_cuda() && site.op().output(0).dtype().is_float()) {
    const double gain = gain_of_caches(site, target);
    if (gain >= dag::cpu_constants(site).split_gain)
      return {gain, "parts stay in a core's L2, where panels of the whole sum would not"};
  }
  return {1, "for the tuner to try: no fewer operations, more to share out"};
}

HEDDLE_REGISTER_REWRITE_RULE({.name = "split_k",
                              .parameters = {{"parts"}},
                              .why_not = why_not,
                              .apply = [](const RewriteSite& site) -> std::vector<Tensor> {
                                return {dag::reduce_in_parts(site.op(), site.values[0], "split_k")};
                              },
                              .error_growth = [](const RewriteSite&) { return 1.0; },
                              .estimate = estimate,
                              .suited = suited});

}  // namespace
}  // namespace heddle
