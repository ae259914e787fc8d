// Scans on CPUs (common/scan_loops.h): the loop over i stays in order.
//
//   along an axis with others inside of it, vectors of columns:
//     parallel for rows, column tiles { for i { vectors of columns: total += x; S = total } }
//   along the last axis each sum waits for the one before, so several rows (or runs) go at a time:
//     parallel for rows { for i { some rows: total += x; S = total } }
#include <algorithm>
#include <vector>

#include "common/scan_loops.h"
#include "cpu/cpu_features.h"
#include "cpu/vectors.h"

namespace heddle::meta::cpu {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && is_scan(dag, g);
}

struct ScanProblem {
  Target target;
  bool parallel = false;  ///< there is enough work for the threads
  int64_t lanes = 1;      ///< elements of a native vector
  int64_t columns = 1;    ///< elements inside of the scanned axis
  int64_t rows = 1;       ///< iterations of the innermost loop outside of it

  NamedFeatures features() const {
    NamedFeatures f = cpu_features(target);
    f.push_back({"parallel", parallel ? 1. : 0.});
    f.push_back({"lanes", static_cast<double>(lanes)});
    f.push_back({"columns", static_cast<double>(columns)});
    f.push_back({"rows", static_cast<double>(rows)});
    return f;
  }
};

// The most vectors of a tile that is unrolled and whose totals stay in registers. The totals of
// wider tiles are in the L1 cache.
constexpr int64_t kMostInRegisters = 16;

// The numbers of vectors of wide tiles: from 64 up to totals that take half of the L1 cache. They
// divide the columns, so that the loop over them has one extent.
std::vector<int64_t> wide_tiles(const ScanProblem& p) {
  constexpr int64_t kLeast = 64;
  std::vector<int64_t> out;
  if (p.columns % p.lanes != 0) return out;
  const int64_t most = p.target.l1d_bytes / 2 / p.target.vector_bytes;
  for (int64_t tile = kLeast; tile <= most; ++tile) {
    if (p.columns / p.lanes % tile == 0) out.push_back(tile);
  }
  return out;
}

// The widest tile for which each thread gets one; 0 where there is none. The rows of a narrow tile
// of a large matrix are on different pages, and each row costs an address translation: 4096x4096
// f32 takes 48 ms in tiles of 16 vectors, 37 in those of 64 and 10 in those of 256 (AVX-512, one
// thread).
int64_t widest_tile(const ScanProblem& p) {
  const int64_t threads = p.parallel ? std::max(1, p.target.cores) : 1;
  int64_t widest = 0;
  for (const int64_t tile : wide_tiles(p)) {
    if (tile * p.lanes * threads <= p.columns) widest = tile;
  }
  return widest;
}

// Chooses the vectors whose totals stay in registers: half of the registers, where the columns fill
// them.
void choose_vectors(const ScanProblem& p, Choice& choice) {
  if (const int64_t wide = widest_tile(p); wide > 0) {
    choice.set("vectors", wide,
               "columns whose totals stay in the L1 cache: long pieces of each row");
    return;
  }
  const int64_t most = p.target.vector_bytes >= 64 ? kMostInRegisters : 8;
  constexpr int64_t kSome = 4;  // where columns do not fill `most`
  const int64_t filled = std::max<int64_t>(1, p.columns / p.lanes);
  choice.set("vectors",
             filled >= most    ? most
             : filled >= kSome ? kSome
                               : 1,
             "columns whose totals stay in registers");
}

// Chooses the number of rows whose sums overlap. An addition takes about four cycles.
void choose_streams(const ScanProblem& p, Choice& choice) {
  constexpr int64_t kAdditionCycles = 4;
  const bool shared = p.parallel && p.target.cores > 1;
  const int64_t rows = shared ? p.rows / p.target.cores : p.rows;
  choice.set("streams", rows >= kAdditionCycles ? kAdditionCycles : 1,
             "rows whose sums do not wait for each other");
}

Choice scan_rule(const ScanProblem& p) {
  Choice choice;
  choose_vectors(p, choice);
  choose_streams(p, choice);
  return choice;
}

/// Vectors of columns, whose totals stay in registers or in the L1 cache.
void by_columns(TemplateBuilder& t, StageRef s, const ScanLoops& l, const ScanProblem& p,
                const Choice& choice) {
  const std::vector<int64_t> wide = wide_tiles(p);
  std::vector<int64_t> tiles{1, 2, 4, 8, kMostInRegisters};
  tiles.insert(tiles.end(), wide.begin(), wide.end());
  const Param vectors = t.knob("vectors", tiles, choice);
  auto [outer, lane] = s.split(s.fuse(l.columns), p.lanes);
  auto [tile, vector] = s.split(outer, vectors);
  const std::vector<Loop> rows = joined(l.rows, {tile});
  s.reorder(joined(rows, {l.place, l.reduce, vector, lane}));
  for (int64_t n = 1; n <= kMostInRegisters; n *= 2) t.when(vectors, n, [&] { s.unroll(vector); });
  s.vectorize(lane);
  const Loop all = s.fuse(rows);
  if (p.parallel) s.parallel(all);
}

/// Scans rows, each with a total of its own.
void by_rows(TemplateBuilder& t, StageRef s, const ScanLoops& l, const ScanProblem& p,
             const Choice& choice) {
  std::vector<Loop> rows = l.rows, at_a_time = l.columns;
  if (!rows.empty() && l.whole) {
    const Param streams = t.knob("streams", {1, 2, 4, 8, 16}, choice);
    auto [outer, stream] = s.split(rows.back(), streams);
    rows.back() = outer;
    at_a_time.insert(at_a_time.begin(), stream);
  }
  s.reorder(joined(joined(rows, {l.place, l.reduce}), at_a_time));
  for (Loop x : at_a_time) s.unroll(x);
  if (rows.empty()) return;
  const Loop all = s.fuse(rows);
  if (p.parallel) s.parallel(all);
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ScanLoops loops = scan_loops(t, g.anchor);
  // A scan does one operation and two accesses for each point, whatever its declaration says.
  const double work = 4 * static_cast<double>(t.dag().info(g.anchor).points);
  const ScanProblem problem{t.target(), worth_parallel(t, work), native_lanes(t, g.anchor),
                            loops.column_count, loops.last_rows};
  const Choice choice = t.decide("scan", problem, scan_rule);
  constexpr int64_t kFewColumns = 4;  // which do not fill a vector
  if (loops.column_count > kFewColumns)
    by_columns(t, t.stage(g.anchor), loops, problem, choice);
  else
    by_rows(t, t.stage(g.anchor), loops, problem, choice);
}

HEDDLE_REGISTER_META_TEMPLATE({"scan", 5, matches, build});

}  // namespace
}  // namespace heddle::meta::cpu
