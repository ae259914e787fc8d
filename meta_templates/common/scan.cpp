// Scans: every point takes what the point before it has and one element more.
//
//   along an axis with others inside of it:
//     parallel for rows, column tiles { for i { vectors of columns: total += x; S = total } }
//   along the last axis, each sum waits for the one before: several rows (or blocks) at a time,
//     parallel for rows { for i { some rows: total += x; S = total } }
//   on a GPU:
//     for blocks, threads { for i { total += x; S = total } }
//
// The loop over i and the reduction in it stay in order; lowering makes them one (linear_scans).
// A scan that begins anew after so many points has runs, which are rows like others.
//
// Knobs: vectors (of columns at a time), streams (rows at a time), threads (of a GPU's block).
#include "cpu/vectors.h"
#include "cuda/common.h"

namespace heddle::meta {
namespace {

bool is_scan(const ComputeDag& dag, const StageGroup& g) {
  return dag.info(g.anchor).scan.has_value() && g.anchor == g.output_stage;
}

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && is_scan(dag, g);
}

bool matches_gpu(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  return target.is_cuda() && is_scan(dag, g);
}

/// The loops of a scan.
struct ScanLoops {
  std::vector<Loop> rows;     ///< outside of the scanned axis, and its runs
  std::vector<Loop> columns;  ///< inside of it
  Loop place;                 ///< along it, from the beginning of a run
  Loop reduce;
  int64_t last_rows = 1;     ///< the extent of the last of `rows`
  int64_t column_count = 1;  ///< of all `columns`
  bool whole = true;         ///< every run has the same length
};

ScanLoops loops_of(TemplateBuilder& t, const StageGroup& g) {
  const Operation& op = t.dag().stage(g.anchor);
  const ScanInfo& scan = *t.dag().info(g.anchor).scan;
  StageRef s = t.stage(g.anchor);
  ScanLoops out;
  const std::vector<Loop> axes = s.all_axes();
  const auto d = static_cast<size_t>(scan.axis);
  out.rows.assign(axes.begin(), axes.begin() + scan.axis);
  out.columns.assign(axes.begin() + scan.axis + 1, axes.end());
  for (size_t i = d + 1; i < axes.size(); ++i) out.column_count *= op.axes()[i].extent();
  if (d > 0) out.last_rows = op.axes()[d - 1].extent();
  out.place = axes[d];
  out.reduce = s.reduce_axis(0);
  const int64_t n = op.axes()[d].extent();
  if (scan.block < n) {
    auto [run, place] = s.split(axes[d], scan.block);
    out.rows.push_back(run);
    out.place = place;
    out.last_rows = ceil_div(n, scan.block);
    out.whole = n % scan.block == 0;
  }
  return out;
}

std::vector<Loop> joined(std::vector<Loop> a, const std::vector<Loop>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

/// Vectors of columns, whose totals stay in registers.
void by_columns(TemplateBuilder& t, const StageGroup& g, const ScanLoops& l, bool threads) {
  StageRef s = t.stage(g.anchor);
  const int64_t lanes = native_lanes(t, g.anchor);
  const int64_t fit = std::max<int64_t>(1, l.column_count / lanes);
  const int64_t most = t.target().vector_bytes >= 64 ? 16 : 8;
  Param vectors = t.knob("vectors", {1, 2, 4, 8, 16},
                         fit >= most ? most
                         : fit >= 4  ? 4
                                     : 1,
                         "columns whose totals stay in registers");
  auto [vo, lane] = s.split(s.fuse(l.columns), lanes);
  auto [tile, vector] = s.split(vo, vectors);
  const std::vector<Loop> outer = joined(l.rows, {tile});
  s.reorder(joined(outer, {l.place, l.reduce, vector, lane}));
  s.unroll(vector);
  s.vectorize(lane);
  const Loop all = s.fuse(outer);
  if (threads) s.parallel(all);
}

/// Rows, each with a total of its own: their sums do not wait for each other.
void by_rows(TemplateBuilder& t, const StageGroup& g, const ScanLoops& l, bool threads) {
  StageRef s = t.stage(g.anchor);
  std::vector<Loop> outer = l.rows, inner = l.columns;
  if (!outer.empty() && l.whole) {
    const int64_t each =
        t.target().cores > 1 && threads ? l.last_rows / t.target().cores : l.last_rows;
    Param streams = t.knob("streams", {1, 2, 4, 8, 16}, each >= 4 ? 4 : 1,
                           "rows whose sums do not wait for each other");
    auto [ro, ri] = s.split(outer.back(), streams);
    outer.back() = ro;
    inner.insert(inner.begin(), ri);
  }
  s.reorder(joined(joined(outer, {l.place, l.reduce}), inner));
  for (Loop x : inner) s.unroll(x);
  if (outer.empty()) return;
  const Loop all = s.fuse(outer);
  if (threads) s.parallel(all);
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ScanLoops l = loops_of(t, g);
  // One operation and two accesses a point, whatever its declaration says.
  const double work = 4 * static_cast<double>(t.dag().info(g.anchor).points);
  const bool threads = worth_parallel(t, work);
  constexpr int64_t kFewColumns = 4;
  if (l.column_count > kFewColumns)
    by_columns(t, g, l, threads);
  else
    by_rows(t, g, l, threads);
}

void build_gpu(TemplateBuilder& t, const StageGroup& g) {
  const ScanLoops l = loops_of(t, g);
  StageRef s = t.stage(g.anchor);
  const std::vector<Loop> outer = joined(l.rows, l.columns);
  s.reorder(joined(outer, {l.place, l.reduce}));
  if (outer.empty()) return;  // one row: one thread
  Param threads = t.knob("threads", powers_of_two(32, most_block_threads(t.target().gpu)), 64,
                         "small blocks spread over all multiprocessors");
  auto [block, thread] = s.split(s.fuse(outer), threads);
  s.bind(block, LoopKind::BlockX);
  s.bind(thread, LoopKind::ThreadX);
}

HEDDLE_REGISTER_META_TEMPLATE({"scan", 5, matches, build});
HEDDLE_REGISTER_META_TEMPLATE({"cuda_scan", 5, matches_gpu, build_gpu});

}  // namespace
}  // namespace heddle::meta
