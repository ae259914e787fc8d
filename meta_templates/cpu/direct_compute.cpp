// Direct compute: element-wise and data-movement stages that are materialised.
//
//   all reads element-wise (axes fused into one):
//     parallel for grain { for chunk { vectors } }
//   otherwise, or with stages that are computed per row:
//     parallel for row blocks { [attached stages]  for rows { for chunk { vectors } } }
//   or, where rows are reduced and come from memory,
//     parallel for tasks { for rows, overlapped { [attached stages]  for chunk { vectors } } }
//   a transposed read:
//     parallel for tiles { for squares { transposed in registers } }
//     parallel for tiles { for squares { to a copy in L1 }  for rows { whole lines } }
//
// Knobs: unroll (vectors a chunk), width (elements a vector), grain (chunks a task), row_block
// (rows a block), overlap_rows (rows a task, each reduced while the one before is written),
// prefetch_rows (how far ahead rows are fetched), tile_rows, tile_cols, staged and
// along_input (a transposed tile, its copy in L1, which tile comes next), nontemporal (stores that
// bypass the caches).
#include <tuple>

#include "cpu/streamed_rows.h"
#include "cpu/vectors.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag&, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && !g.attached && g.anchor == g.output_stage &&
         g.anchor_class == StageClass::DirectCompute;
}

// Whether the axes can be one: each read is at the stage's own point, or repeats (a bias) with a
// period of whole vectors of `width`. Rows of another length would be gathered where they end; but
// rows of a few elements are no loops.
bool one_run(const ComputeDag& dag, const StageGroup& g, int64_t width) {
  if (!g.tunable.empty() || !all_elementwise(dag, g.output_stage)) return false;
  const auto& axes = dag.stage(g.output_stage).axes();
  if (axes.size() < 2 || axes.back().extent() % width == 0 || axes.back().extent() < 4 * width)
    return true;
  return std::all_of(g.inlined.begin(), g.inlined.end(),
                     [&](int s) { return all_elementwise(dag, s); });
}

// A read is transposed: in tiles, so that whole lines are read and written while both are near.
void tile_transposed(TemplateBuilder& t, const StageGroup& g, int transposed, bool threads) {
  const Operation& op = t.dag().stage(g.output_stage);
  StageRef s = t.stage(g.output_stage);
  const std::vector<Loop> axes = s.all_axes();
  const int64_t lanes = native_lanes(t, g.output_stage);
  const int64_t line = std::max<int64_t>(1, 64 / op.output(0).dtype().bytes());
  const int64_t out_bytes = spatial_points(op) * op.output(0).dtype().bytes();
  // Stores that bypass the caches must fill a line before another is begun; when the buffers that
  // combine the parts run out, they take twice as long. A square of registers writes whole lines
  // with AVX-512; otherwise a copy of the tile in L1 does.
  const bool whole_lines = t.target().vector_bytes >= 64;
  const bool past_caches = larger_than_caches(t, out_bytes);
  const int64_t input_row = op.axes()[transposed].extent() * op.output(0).dtype().bytes();
  const bool copy = past_caches && op.output(0).dtype().bytes() == 4 && lanes * 2 == line &&
                    op.axes().back().extent() % line == 0 &&
                    input_row >= kPageBytes;  // shorter ones lie near enough to each other
  Param staged = t.choice("staged", copy,
                          copy ? "whole lines of a result larger than the last cache"
                               : "squares of registers write through the caches");
  Param nontemporal =
      t.choice("nontemporal", past_caches && (whole_lines || copy),
               whole_lines || copy
                   ? "result of " + std::to_string(out_bytes >> 10) + " KiB against the last cache"
                   : "a line of the result is written in parts");
  t.when(nontemporal, 1, [&] { s.store_nontemporal(); });
  // A copy takes one line of each of as many rows of the input as the second cache has places for,
  // and the next tile the lines beside them, which the machine has fetched by then. Rows that far
  // apart that all fall into the same few places: fewer.
  const int64_t l2 = t.target().l2_bytes;
  const int64_t lines = std::clamp<int64_t>(l2 / input_row, 4 * line, 8 * line) / line;
  Param rows =
      t.split_knob("tile_rows", op.axes()[transposed].extent(), 8 * line, copy ? line : 4 * line,
                   copy ? "a line of each of the input's rows"
                        : "long enough that whole lines of the input are used up");
  Param cols =
      t.split_knob("tile_cols", op.axes().back().extent(), 8 * line,
                   copy && input_row * 8 < l2 ? lines * line : 2 * line, "lines of the result");
  auto [ro, ri] = s.split(axes[transposed], rows);
  auto [co, ci] = s.split(axes.back(), cols);
  auto [cio, cii] = s.split(ci, lanes);
  const auto rest = [&, ri = ri, cio = cio, cii = cii](const std::vector<Loop>& outer) {
    std::vector<Loop> order = outer;
    for (Loop l : {ri, cio, cii}) order.push_back(l);
    s.reorder(order);
    s.vectorize(cii);
    Loop all = s.fuse(outer);
    if (threads) s.parallel(all);
    t.when(staged, 0, [&] {
      // The parts of a line of the result are written one after the other.
      auto [rio, rii] = s.split(ri, lanes);
      s.reorder({rio, cio, rii, cii});
      s.unroll(rii);
    });
    t.when(staged, 1, [&] {
      s.unroll(cio);
      StageRef tile = s.cache_write();
      tile.compute_at(s, all);
      // The parts of a line of the input are read one after the other.
      auto [to, ti] = tile.split(tile.axis(static_cast<int>(axes.size()) - 1), lanes);
      auto [rio, rii] = tile.split(tile.axis(transposed), lanes);
      tile.reorder({to, rio, rii, ti});
      tile.unroll(rii);
      tile.vectorize(ti);
    });
  };
  std::vector<Loop> along_result, along_input;
  for (size_t i = 0; i + 1 < axes.size(); ++i) {
    along_result.push_back(static_cast<int>(i) == transposed ? ro : axes[i]);
    if (static_cast<int>(i) != transposed) along_input.push_back(axes[i]);
  }
  along_result.push_back(co);
  along_input.push_back(co);
  along_input.push_back(ro);
  Param walk =
      t.choice("along_input", copy,
               copy ? "the next tile has the lines beside these" : "whole rows of the result");
  t.when(walk, 0, [&] { rest(along_result); });
  t.when(walk, 1, [&] { rest(along_input); });
  t.note("tiled: a read is transposed");
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(g.output_stage);
  StageRef s = t.stage(g.output_stage);
  double work = stage_work(dag, g.output_stage);
  for (int x : g.tunable) work += stage_work(dag, x);
  bool threads = worth_parallel(t, work);
  std::vector<Loop> axes = s.all_axes();
  int transposed = g.tunable.empty() ? transposed_axis(dag, g.output_stage) : -1;
  if (transposed >= 0) return tile_transposed(t, g, transposed, threads);
  int64_t out_bytes = spatial_points(op) * op.output(0).dtype().bytes();
  const bool past_caches = larger_than_caches(t, out_bytes);
  Param nontemporal =
      t.choice("nontemporal", past_caches,
               "result of " + std::to_string(out_bytes >> 10) + " KiB against the last cache");
  t.when(nontemporal, 1, [&] { s.store_nontemporal(); });
  if (axes.empty()) return;

  Param unroll =
      t.knob("unroll", {1, 2, 4, 8}, g.tunable.empty() ? 4 : 2, "independent vectors in flight");
  const bool transcendental_output = has_transcendentals(dag, g.output_stage, g.inlined);
  Param width = vector_width(t, g.output_stage, transcendental_output);
  auto vectorized = [&](Loop loop) {
    Loop chunk = loop;
    auto [vo, vi] = s.split(loop, width);
    auto [uo, ui] = s.split(vo, unroll);
    s.unroll(ui);
    s.vectorize(vi);
    chunk = uo;
    return chunk;
  };
  if (one_run(dag, g, native_lanes(t, g.output_stage) * (transcendental_output ? 2 : 1))) {
    Loop all = vectorized(s.fuse(axes));
    if (threads) {
      // Whole pages a task, so that threads do not share lines.
      Param grain = t.knob("grain", {16, 64, 256}, 64, "chunks a task");
      auto [po, pi] = s.split(all, grain);
      (void)pi;
      s.parallel(po);
    }
    return;
  }
  size_t rank = std::max(0, row_rank(dag, g));
  std::vector<Loop> rows(axes.begin(), axes.begin() + rank);
  if (!rows.empty()) {
    // Several rows at a time where a row is read again and again: the first pass over them then
    // draws on memory with several streams, and what they need still fits the second cache.
    int64_t row_bytes = spatial_points(op) / std::max<int64_t>(1, leading_points(op, rank)) *
                        op.output(0).dtype().bytes();
    int64_t last = op.axes()[rank - 1].extent();
    // (Dear functions leave memory idle; there, fetching ahead does more: see location_tunable.)
    bool dear = std::any_of(g.tunable.begin(), g.tunable.end(), [&](int x) {
      const StageInfo& info = dag.info(x);
      return info.transcendentals_per_point > 0 &&
             info.points * info.reduce_points > leading_points(op, rank);
    });
    const std::vector<Access> reads = rows_read(dag, g.output_stage, g.inlined);
    const bool stream = !g.tunable.empty() && !dear && out_bytes > t.target().l2_bytes &&
                        row_bytes * 16 <= t.target().l2_bytes && last >= 16 * t.target().cores;
    // One row at a time where memory works all the time: one pass reads a row and another, which
    // fetches what is next, writes it; or there is a pass between, which fetches it (short rows).
    const bool again = std::any_of(g.tunable.begin(), g.tunable.end(), [&](int x) {
      return dag.stage(x).is_reduction() && reads_again(dag, x);
    });
    const bool near = again ? short_row(t, row_bytes) : row_bytes * 2 <= t.target().l1d_bytes;
    const bool reduces = std::any_of(g.tunable.begin(), g.tunable.end(), [&](int x) {
      return dag.stage(x).is_reduction() && !rows_read(dag, x).empty();
    });
    const int64_t all_rows = leading_points(op, rank);
    const bool overlap = reduces && streams_rows(t, g.output_stage, all_rows);
    const bool block =
        stream && !overlap && (reads.empty() || !near || out_bytes <= 2 * t.target().l2_bytes);
    const bool fetch = stream && !overlap && (block ? past_caches : !again);
    // Rows that fill the second cache come from memory in each pass: two at a time, two streams.
    bool long_rows = dear && row_bytes * 4 > t.target().l2_bytes && last >= 4 * t.target().cores;
    Param rows_at_once = t.knob("row_block", {1, 2, 4},
                                block       ? 4
                                : long_rows ? 2
                                            : 1,
                                "rows worked on at a time");
    auto [ro, ri] = s.split(rows.back(), rows_at_once);
    (void)ri;
    rows.back() = ro;
    Loop task = s.fuse(rows), row = task;
    if (reduces && !dear) {
      Param rows_of_task = t.knob("overlap_rows", {1, 16, 64},
                                  !overlap                             ? 1
                                  : all_rows >= 256 * t.target().cores ? 64
                                                                       : 16,
                                  "the next row is reduced while one is written");
      std::tie(task, row) = std::tuple_cat(s.split(task, rows_of_task));
      s.overlap(row);
    }
    if (threads) s.parallel(task);
    t.offer_place(s, row, "rows");
    // What the first pass over the rows takes from memory comes while the last pass writes.
    if (!g.tunable.empty() && !reads.empty()) {
      prefetch_rows(t, s, reads,
                    rows_ahead(t,
                               !fetch  ? 0
                               : block ? 4
                                       : 1,
                               "the next rows come while these are written"));
    }
  }
  Loop chunk = vectorized(axes.back());
  if (threads && rows.empty()) s.parallel(chunk);
}

HEDDLE_REGISTER_META_TEMPLATE({"direct_compute", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
