// Simple reductions: every operand element is read once (or by a small window), so the work is
// streaming memory through several independent accumulators. So is a matrix-vector product: its
// vector is reused, but the matrix is what takes the time.
//
//   along a contiguous reduce axis ("row"):
//     parallel for row blocks { for k { rows x vectors: rf += .. }  for rows { combine rf } }
//   along a strided reduce axis ("column"):
//     parallel for j tiles { for k blocks { for j vectors { acc += several rows } } }
//   too few rows for the cores, or columns of which a core can hold all:
//     the reduction itself is cut into parts (rfactor), in parallel
//
// Hosted (one value per row of another group), it has a location as well, and is never parallel
// itself. Knobs: split_reduction, part_length; lanes_unroll, streams (rows read at a time), tile;
// the same with part_ before them for the cut form; location; prefetch_rows
// (how far ahead rows are fetched, attached), prefetch_lines (the same along a row).
#include "cpu/streamed_rows.h"
#include "cpu/vectors.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (target.kind != "llvm" || !dag.stage(g.anchor).is_reduction()) return false;
  return g.anchor_class == StageClass::SimpleReduction ||
         (g.anchor_class == StageClass::ComplexReduction && streams_one_operand(dag, g.anchor));
}

// Vector partial results for the reduction of `s` over its axes `ks`, computed at loop `at` of
// `host`, `width` terms at a time (a whole number of native vectors, which divides `chunk`).
// `row_axis`: the axis of `s` along which several rows are read at a time, or -1. Then, where the
// rows are all summed, `streams` of them are, along the reduce axis outside of `ks`. Returns the
// stage of the partial results and its loop over vectors of them.
std::pair<StageRef, Loop> vector_partials(StageRef s, const std::vector<int>& ks, int64_t lanes,
                                          int64_t width, Param chunk, StageRef host, Loop at,
                                          int row_axis, Param streams) {
  // Several vectors of partial results, then one vector, then its lanes.
  std::vector<Loop> run;
  for (int k : ks) run.push_back(s.reduce_axis(k));
  StageRef rf = s.rfactor(run, chunk, true);
  std::vector<Loop> reduce = rf.all_reduce_axes();
  Loop part = rf.axis(0);
  auto [po, pi] = rf.split(part, width);
  std::vector<Loop> order = rf.all_axes();
  order.erase(order.begin());
  // The rows that are read at a time go inside the reduction.
  // (Never the part of a cut reduction: how long a part is may depend on which it is.)
  Loop row;
  if (row_axis >= 0) {
    row = order[static_cast<size_t>(row_axis)];
    order.erase(order.begin() + row_axis);
  } else if (ks.front() > 0) {
    Loop& all_rows = reduce[static_cast<size_t>(ks.front()) - 1];
    auto [ro, ri] = rf.split(all_rows, streams);
    all_rows = ro;
    row = ri;
  }
  order.insert(order.end(), reduce.begin(), reduce.end());
  if (row.valid()) order.push_back(row);
  order.push_back(po);
  order.push_back(pi);
  rf.reorder(order);
  if (row.valid()) rf.unroll(row);
  rf.unroll(po);
  rf.vectorize(pi);
  StageRef one = s.rfactor(s.reduce_axis(0), Param(lanes), true);
  Loop lane = one.axis(0);
  std::vector<Loop> tail = one.all_axes();
  tail.erase(tail.begin());
  Loop rest = one.reduce_axis(0);
  tail.push_back(rest);
  tail.push_back(lane);
  one.reorder(tail);
  one.unroll(rest);
  one.vectorize(lane);
  // Lanes lie side by side in memory too.
  for (StageRef x : {rf, one}) {
    std::vector<StageRef::StorageDim> dims;
    for (int d = 1; d < x.num_axes(); ++d) dims.push_back({d});
    dims.push_back({0});
    x.layout(dims);
  }
  // Their rows as well: then every accumulator has a place of its own, a register.
  if (row_axis >= 0) {
    one.unroll(one.axis(1 + row_axis));
    if (host.id() != s.id()) s.unroll(s.axis(row_axis));
  }
  one.compute_at(host, at);
  rf.compute_at(host, at);
  s.unroll(s.reduce_axis(0));
  return {rf, po};
}

// Whether the terms of reduction `s` are those of a stage that calls dear functions.
bool reads_dear(const ComputeDag& dag, int s) {
  const StageInfo& info = dag.info(s);
  return std::any_of(info.producers.begin(), info.producers.end(), [&](int p) {
    return !dag.stage(p).is_reduction() && has_transcendentals(dag, p) &&
           dag.info(p).points >= info.points * info.reduce_points;
  });
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(g.anchor);
  StageRef r = t.stage(g.anchor);
  StageRef output_stage = t.stage(g.output_stage);
  const bool fused = g.output_stage != g.anchor;
  int64_t lanes = native_lanes(t, g.anchor);
  const bool threads = worth_parallel(t, stage_work(dag, g.anchor)) && !g.attached;
  int64_t points = spatial_points(op);
  const std::vector<int> run = contiguous_reduce_axes(dag, g.anchor);
  int64_t run_length = 1;  // elements of a row, which lie one after the other
  for (int k : run) run_length *= op.reduce_axes()[static_cast<size_t>(k)].extent();
  bool commutative = op.bodies()[0].as<Reduce>()->combiner->commutative;

  Param location;
  if (g.attached) {
    std::vector<int64_t> where{0};
    for (size_t p = 0; p < g.places.size(); ++p) where.push_back(static_cast<int64_t>(p) + 1);
    location = t.knob("location", where, g.deepest, "one value per row of the reader");
    t.set_location(g.output_stage, location);
    for (size_t p = 0; p < g.places.size(); ++p) {
      t.when(location, static_cast<int64_t>(p) + 1,
             [&] { output_stage.compute_at(t.stage(g.places[p].stage), g.places[p].loop); });
    }
  }

  bool along_row = !run.empty() && commutative && run_length >= 2 * lanes;
  // Few long reductions: the reduction is cut into parts, one a task.
  int longest = 0;
  for (size_t i = 0; i < op.reduce_axes().size(); ++i) {
    if (op.reduce_axes()[i].extent() > op.reduce_axes()[longest].extent())
      longest = static_cast<int>(i);
  }
  // A contiguous axis that is also cut keeps the lanes inside the part: cut another axis if there
  // is one.
  int cut = longest;
  for (size_t i = 0; i < op.reduce_axes().size(); ++i) {
    if (along_row && static_cast<int>(i) != run.back() &&
        op.reduce_axes()[i].extent() >= 4 * t.target().cores)
      cut = static_cast<int>(i);
  }
  bool wide_columns =
      !along_row && !op.axes().empty() && op.axes().back().extent() >= 8 * lanes * t.target().cores;
  bool few = threads && points < 4 * t.target().cores * (along_row ? 1 : lanes) && !wide_columns;
  bool scalar = op.axes().empty();  // no loop to hang partial results on: one part serves
  // Each thread then reads whole rows of its own, one after the other: at the end of a piece of a
  // row, prefetchers run on into another thread's. A part is to be long beside the sum of all.
  const int64_t l1_elements =
      op.axes().empty() ? 0 : t.target().l1d_bytes / 2 / op.output(0).dtype().bytes();
  const bool one_row = !op.axes().empty() && points == op.axes().back().extent();
  const bool whole_rows =
      threads && !along_row && one_row && points <= l1_elements &&
      op.reduce_axes()[cut].extent() >= 32 * int64_t{t.target().cores} * t.target().cores;
  const bool can_split = commutative && !g.attached && (!fused || (!along_row && one_row));
  const bool split = can_split && (whole_rows || (!fused && (few || scalar))) &&
                     op.reduce_axes()[cut].extent() >= 4 * t.target().cores;
  Param parts = t.choice("split_reduction", split,
                         !split       ? "enough rows for the cores"
                         : whole_rows ? "each thread reads whole rows"
                                      : "fewer rows than cores");

  // Rows are counted along the last axis that has more than one.
  int row_axis = static_cast<int>(op.axes().size()) - 1;
  while (row_axis > 0 && op.axes()[row_axis].extent() == 1) --row_axis;
  bool many_rows = along_row && !op.axes().empty() &&
                   op.axes()[row_axis].extent() >= 16 * t.target().cores &&
                   stage_bytes(dag, g.anchor) > static_cast<double>(t.target().l2_bytes);
  auto schedule = [&](StageRef s, bool root_of_parts, StageRef host) {
    // `s` is the reduction to shape; its loops, or its host's (when an element-wise output stage
    // follows).
    if (along_row) {
      std::vector<int> ks = run;
      int64_t length = run_length;
      if (root_of_parts && ks.size() > 1) {
        // A part has whole runs of what is inside of the axis that is cut.
        auto it = std::find(ks.begin(), ks.end(), cut);
        if (it != ks.end()) ks.erase(ks.begin(), std::min(it + 1, ks.end() - 1));
        length = 1;
        for (int k : ks) length *= op.reduce_axes()[static_cast<size_t>(k)].extent();
      }
      // The accumulators of a tuple share the registers. (Long rows of another group come one or
      // two at a time.)
      const int64_t outputs = op.num_outputs();
      const bool long_rows =
          g.attached && length * op.output(0).dtype().bytes() * 4 > t.target().l2_bytes;
      // Dear terms two vectors at a time (vector_width), if only there is more than one. Their
      // chains hide the latency of the sum, and their constants take the registers.
      const bool dear = has_transcendentals(dag, g.anchor, g.inlined) ||
                        (g.attached && !g.in_chain && reads_dear(dag, g.anchor));
      const int64_t width = dear && length >= 4 * lanes ? 2 * lanes : lanes;
      const bool one_pass = many_rows && !long_rows && !g.attached;
      const int64_t vectors = dear ? width / lanes : (one_pass ? 2 : 4) / outputs;
      std::vector<int64_t> chunks{lanes, 2 * lanes, 4 * lanes, 8 * lanes};
      std::erase_if(chunks, [&](int64_t c) { return c % width != 0; });
      Param chunk = t.knob(
          root_of_parts ? "part_lanes_unroll" : "lanes_unroll", chunks,
          std::clamp<int64_t>(vectors * lanes, width, std::max(width, length / lanes * lanes)),
          "independent accumulators hide the add latency");
      std::vector<Loop> rows = host.all_axes();
      if (rows.empty()) return;  // one value: the parts are the loops
      const bool part_alone = op.axes().empty();
      const int first = host.num_axes() - static_cast<int>(op.axes().size());  // 1: the part
      const int at = first + row_axis;
      // Several rows at a time: memory delivers more to several streams than to one.
      const bool summed_rows = part_alone && ks.front() > 0;
      const bool several = summed_rows ? stage_bytes(dag, g.anchor) > 4. * t.target().l2_bytes
                                       : many_rows && !part_alone;
      Param streams(1);
      if (summed_rows || !part_alone) {
        streams = t.knob(root_of_parts ? "part_streams" : "streams", {1, 2, 4, 8}, several ? 4 : 1,
                         "rows read at a time");
      }
      if (!part_alone) {
        auto [ro, ri] = host.split(rows[at], streams);
        rows[at] = ro;
        if (at + 1 < static_cast<int>(rows.size())) {
          std::vector<Loop> order = rows;
          order.push_back(ri);
          host.reorder(order);
        }
        host.unroll(ri);
      }
      Loop row = host.fuse(rows);
      if (threads) host.parallel(row);
      if (host.id() != s.id()) s.compute_at(host, row);
      const auto [partial, vectors_of_row] =
          vector_partials(s, ks, lanes, width, chunk, host, row, part_alone ? -1 : at, streams);
      if (g.attached && ks.size() == 1)
        t.offer_reader_loop(g.anchor, partial, vectors_of_row, location);
      // Row by row, memory idles while dear functions are computed, or while short rows are read
      // again: the rows that come next may be fetched.
      const std::vector<Access> reads = rows_read(dag, g.anchor, g.inlined);
      if (g.attached && !reads.empty()) {
        const int64_t bytes = length * op.output(0).dtype().bytes();
        const bool computes = has_transcendentals(dag, g.anchor, g.inlined);
        const bool worth =
            (computes || (short_row(t, bytes) && reads_again(dag, g.anchor))) &&
            stage_bytes(dag, g.anchor) > static_cast<double>(2 * t.target().l2_bytes);
        prefetch_rows(t, partial, reads,
                      rows_ahead(t,
                                 !worth     ? 0
                                 : computes ? 2
                                            : 1,
                                 "memory works while this computes"));
        // The first to read them may run while the row before is written.
        if (computes || g.places.empty() || reads_again(dag, g.anchor)) return;
        const bool beside = streams_rows(t, g.places.front().stage, points);
        Param ahead = t.knob("prefetch_lines", {0, kLinesAhead / 2, kLinesAhead},
                             beside ? kLinesAhead : 0, "memory has stores to wait for as well");
        StageRef first = partial;
        for (const Access& a : reads) {
          const int64_t line = 64 / a.tensor.dtype().bytes();
          for (const int64_t n : {kLinesAhead / 2, kLinesAhead}) {
            if (n * line > a.tensor.extent(1)) continue;
            t.when(ahead, n, [&] { first.prefetch(t.stage(a.producer), 1, n * line); });
          }
        }
      }
      return;
    }
    // Columns: vectors over the last spatial axis, accumulators in the nearest cache.
    std::vector<Loop> axes = host.all_axes();
    if (axes.empty()) return;
    if (op.axes().empty()) {
      if (threads) host.parallel(axes[0]);
      return;
    }
    int64_t extent = op.axes().back().extent();
    int64_t want = std::min(extent, l1_elements);
    if (threads && one_row && !root_of_parts)
      want = std::min(want, ceil_div(ceil_div(extent, t.target().cores), lanes) * lanes);
    Param tile = t.knob(root_of_parts ? "part_tile" : "tile",
                        {lanes, 4 * lanes, 16 * lanes, 64 * lanes, l1_elements}, want,
                        "accumulators stay in the first cache");
    auto [jo, ji] = host.split(axes.back(), tile);
    std::vector<Loop> outer(axes.begin(), axes.end() - 1);
    outer.push_back(jo);
    Loop all = host.fuse(outer);
    if (threads) host.parallel(all);
    auto [vo, vi] = host.split(ji, lanes);
    (void)vo;
    host.vectorize(vi);
    s.compute_at(host, all);
    std::vector<Loop> own = s.all_axes(), reduce = s.all_reduce_axes();
    auto [ao, ai] = s.split(own.back(), lanes);
    // Several rows at a time: memory delivers more to several streams, and each accumulator is
    // loaded and stored once for all of them.
    Param streams = t.knob(root_of_parts ? "part_streams" : "streams", {1, 2, 4, 8, 16}, 8,
                           "rows read at a time");
    std::vector<Loop> order(own.begin(), own.end() - 1);
    order.insert(order.end(), reduce.begin(), reduce.end() - 1);
    auto [ko, ki] = s.split(reduce.back(), streams);
    for (Loop l : {ko, ao, ki, ai}) order.push_back(l);
    s.reorder(order);
    s.unroll(ki);
    s.vectorize(ai);
  };
  // A stage that stores its result once: accumulate in a private copy, then write it out.
  auto with_host = [&](StageRef s, bool of_parts) {
    schedule(along_row || s.num_axes() == 0 ? s : s.cache_write(), of_parts, s);
  };

  t.when(parts, 0, [&] {
    if (fused) {
      schedule(r, false, output_stage);
    } else {
      with_host(r, false);
    }
  });
  if (!can_split) return;
  t.when(parts, 1, [&] {
    int64_t extent = op.reduce_axes()[cut].extent();
    Param length = t.knob(
        "part_length", {ceil_div(extent, t.target().cores), ceil_div(extent, 4 * t.target().cores)},
        ceil_div(extent, t.target().cores), "one part a core");
    StageRef rf = r.rfactor(r.reduce_axis(cut), length, false);
    with_host(rf, true);
    if (along_row || op.axes().empty()) return;
    // The parts are added up by vectors, each as it is needed.
    const auto by_vectors = [&](StageRef s) {
      std::vector<Loop> order = s.all_axes();
      auto [o, i] = s.split(order.back(), lanes);
      order.back() = o;
      for (Loop k : s.all_reduce_axes()) order.push_back(k);
      order.push_back(i);
      s.reorder(order);
      s.vectorize(i);
      return o;
    };
    by_vectors(r);
    if (fused) r.compute_at(output_stage, by_vectors(output_stage));
  });
}

HEDDLE_REGISTER_META_TEMPLATE({"simple_reduction", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
