#include "cpu/elementwise/direct_rule.h"

#include <algorithm>

#include "common/accesses.h"
#include "cpu/cpu_features.h"
#include "cpu/streamed_rows.h"
#include "cpu/vectors.h"

namespace heddle::meta::cpu {
namespace {

// Several rows are processed at a time where a row is read again and again. The first pass then
// reads memory in several streams, and its data still fits L2. Transcendental functions leave
// memory idle; there, prefetching gains more (location_tunable.cpp).
bool rows_stream(const DirectProblem& p) {
  const CpuConstants& by = p.constants;
  return p.has_row_stages && !p.rows_compute && p.result_bytes > p.target.l2_bytes &&
         p.row_bytes * by.blocks_in_l2 <= p.target.l2_bytes &&
         p.last_rows >= by.block_rows_a_core * p.target.cores;
}

// Whether the next row is reduced while one is written.
bool rows_overlap(const DirectProblem& p) { return p.reduces_rows && p.streams_rows; }

// Whether rows are processed in blocks. Single rows are better where memory is busy all the time:
// one pass reads a row, and another writes it and prefetches; or, for short rows, a pass between
// prefetches.
bool rows_in_blocks(const DirectProblem& p) {
  const bool near =
      p.reads_again ? is_short_row(p.target, p.row_bytes) : p.row_bytes * 2 <= p.target.l1d_bytes;
  return rows_stream(p) && !rows_overlap(p) &&
         (!p.reads_rows || !near || p.result_bytes <= 2 * p.target.l2_bytes);
}

void choose_row_block(const DirectProblem& p, Choice& choice) {
  constexpr int64_t kRowsOfBlock = 4, kLongRowsOfBlock = 2;
  // Rows that fill L2 come from memory in each pass. Two at a time give two streams.
  const bool long_rows = p.rows_compute &&
                         p.row_bytes * p.constants.long_rows_in_l2 > p.target.l2_bytes &&
                         p.last_rows >= p.constants.long_rows_a_core * p.target.cores;
  choice.set("block_rows",
             rows_in_blocks(p) ? kRowsOfBlock
             : long_rows       ? kLongRowsOfBlock
                               : 1,
             "rows worked on at a time");
}

void choose_overlap(const DirectProblem& p, Choice& choice) {
  constexpr int64_t kLongTask = 64, kShortTask = 16;  // rows
  const bool many = p.rows >= p.constants.many_rows_a_core * p.target.cores;
  choice.set("rows_a_task",
             !rows_overlap(p) ? 1
             : many           ? kLongTask
                              : kShortTask,
             "the next row is reduced while one is written");
}

void choose_prefetch(const DirectProblem& p, Choice& choice) {
  constexpr int64_t kRowsAheadOfBlocks = 4, kRowsAhead = 1;
  const bool block = rows_in_blocks(p);
  const bool fetch = rows_stream(p) && !rows_overlap(p) &&
                     (block ? larger_than_caches(p.target, p.result_bytes) : !p.reads_again);
  choice.set("prefetch_rows",
             !fetch  ? 0
             : block ? kRowsAheadOfBlocks
                     : kRowsAhead,
             "the next rows come while these are written");
}

void describe_rows(const TemplateBuilder& t, const StageGroup& g, DirectProblem& p) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(g.output_stage);
  p.row_rank = std::max(0, row_rank(dag, g));
  const auto rank = static_cast<size_t>(p.row_rank);
  p.rows = leading_points(op, rank);
  p.row_bytes = spatial_points(op) / std::max<int64_t>(1, p.rows) * op.output(0).dtype().bytes();
  if (rank == 0) return;
  p.last_rows = op.axes()[rank - 1].extent();
  p.reads_rows = !rows_read(dag, g.output_stage, g.inlined).empty();
  for (int x : g.tunable) {
    const StageInfo& info = dag.info(x);
    p.rows_compute |=
        info.transcendentals_per_point > 0 && info.points * info.reduce_points > p.rows;
    if (!dag.stage(x).is_reduction()) continue;
    p.reduces_rows |= !rows_read(dag, x).empty();
    p.reads_again |= reads_again(dag, x);
  }
  p.streams_rows = p.reduces_rows && streams_rows(t, g.output_stage, p.rows);
}

}  // namespace

DirectProblem direct_problem(const TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(g.output_stage);
  double work = stage_work(dag, g.output_stage);
  for (int x : g.tunable) work += stage_work(dag, x);
  DirectProblem p;
  p.target = t.target();
  p.constants = t.constants().cpu;
  const bool reduces = std::any_of(g.tunable.begin(), g.tunable.end(),
                                   [&](int x) { return dag.stage(x).is_reduction(); });
  p.parallel = reduces ? worth_parallel_rows(t, work) : worth_parallel(t, work);
  p.lanes = native_lanes(t, g.output_stage);
  p.result_bytes = spatial_points(op) * op.output(0).dtype().bytes();
  p.output_computes = has_transcendentals(dag, g.output_stage, g.inlined);
  p.has_row_stages = !g.tunable.empty();
  describe_rows(t, g, p);
  return p;
}

Choice direct_rule(const DirectProblem& p) {
  constexpr int64_t kVectorsInFlight = 4, kVectorsOfRows = 2;
  constexpr int64_t kChunksATask = 64;  // multiples of pages, so that threads do not share lines
  Choice choice;
  choice.set("nontemporal", larger_than_caches(p.target, p.result_bytes),
             "result of " + std::to_string(p.result_bytes >> 10) + " KiB against the last cache");
  choice.set("unroll", p.has_row_stages ? kVectorsOfRows : kVectorsInFlight,
             "independent vectors in flight");
  choose_vector_width(p.lanes, choice);
  choice.set("grain", kChunksATask, "chunks a task");
  choose_row_block(p, choice);
  choose_overlap(p, choice);
  choose_prefetch(p, choice);
  return choice;
}

NamedFeatures DirectProblem::features() const {
  NamedFeatures f = cpu_features(target);
  const auto add = [&](std::string_view name, auto value) {
    f.push_back({name, static_cast<double>(value)});
  };
  add("parallel", parallel);
  add("lanes", lanes);
  add("result_bytes", result_bytes);
  add("output_computes", output_computes);
  add("has_row_stages", has_row_stages);
  add("rows_compute", rows_compute);
  add("reduces_rows", reduces_rows);
  add("reads_again", reads_again);
  add("reads_rows", reads_rows);
  add("streams_rows", streams_rows);
  add("row_rank", row_rank);
  add("rows", rows);
  add("last_rows", last_rows);
  add("row_bytes", row_bytes);
  return f;
}

}  // namespace heddle::meta::cpu
