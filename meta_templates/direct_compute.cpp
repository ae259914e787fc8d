// Direct compute: element-wise and data-movement stages that are materialised.
//
//   all reads element-wise (axes fused into one):
//     parallel for grain { for chunk { vectors } }
//   otherwise, or with stages that are computed per row:
//     parallel for row blocks { [hosted stages]  for rows { for chunk { vectors } } }
//   a transposed read:
//     parallel for tiles { for 8 rows { one vector each } }
//
// Knobs: unroll (vectors a chunk), grain (chunks a task), row_block (rows a block), tile_rows and
// tile_cols (a transposed tile), nontemporal (stores that bypass the caches).
#include "common.h"

namespace heddle::meta {
namespace {

bool matches(const ComputeDag&, const StageGroup& g, const Target& target) {
  return target.kind == "llvm" && !g.hosted && g.main == g.sink &&
         g.main_class == StageClass::DirectCompute;
}

void build(TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(g.sink);
  StageRef s = t.stage(g.sink);
  int64_t lanes = native_lanes(t, g.sink);
  double work = stage_work(dag, g.sink);
  for (int x : g.tunable) work += stage_work(dag, x);
  bool threads = worth_parallel(t, work);
  int transposed = g.tunable.empty() ? transposed_axis(dag, g.sink) : -1;
  int64_t out_bytes = spatial_points(op) * op.output(0).dtype().bytes();
  // Stores that bypass the caches must fill a line before another is begun: a transposed tile
  // writes part of a line for each of its rows first, and when the write-combining buffers run out
  // meanwhile, it takes twice as long (measured: 7 or 14 ms, as the pages lie).
  bool whole_lines = transposed < 0 || t.target().vector_bytes >= 64;
  Param nontemporal = t.choice(
      "nontemporal", whole_lines && out_bytes > std::max(t.target().l3_bytes, t.target().l2_bytes),
      whole_lines ? "result of " + std::to_string(out_bytes >> 10) + " KiB against the last cache"
                  : "a line of the result is written in parts");
  t.when(nontemporal, 1, [&] { s.store_nontemporal(); });
  std::vector<Loop> axes = s.all_axes();
  if (axes.empty()) return;

  if (transposed >= 0) {
    // Square tiles: whole cache lines are read and written while both are near.
    int64_t line = std::max<int64_t>(1, 64 / op.output(0).dtype().bytes());
    Param rows = t.split_knob("tile_rows", op.axes()[transposed].extent(), 8 * line, 8 * line,
                              "long enough that whole lines of the input are used up");
    Param cols = t.split_knob("tile_cols", op.axes().back().extent(), 8 * line, line,
                              "a cache line of the result");
    auto [ro, ri] = s.split(axes[transposed], rows);
    auto [co, ci] = s.split(axes.back(), cols);
    auto [cio, cii] = s.split(ci, lanes);
    std::vector<Loop> outer;
    for (size_t i = 0; i + 1 < axes.size(); ++i)
      outer.push_back(static_cast<int>(i) == transposed ? ro : axes[i]);
    std::vector<Loop> order = outer;
    for (Loop l : {co, cio, ri, cii}) order.push_back(l);
    s.reorder(order);
    auto [rio, rii] = s.split(ri, lanes);
    s.reorder({rio, cio, rii, cii});
    s.unroll(rii);
    s.vectorize(cii);
    outer.push_back(co);
    Loop all = s.fuse(outer);
    if (threads) s.parallel(all);
    t.note("tiled: a read is transposed");
    return;
  }

  Param unroll =
      t.knob("unroll", {1, 2, 4, 8}, g.tunable.empty() ? 4 : 2, "independent vectors in flight");
  std::vector<std::pair<int64_t, Param>> chunk_of;
  auto vectorized = [&](Loop loop) {
    Loop chunk = loop;
    auto [vo, vi] = s.split(loop, lanes);
    auto [uo, ui] = s.split(vo, unroll);
    s.unroll(ui);
    s.vectorize(vi);
    chunk = uo;
    return chunk;
  };
  if (g.tunable.empty() && all_elementwise(dag, g.sink)) {
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
      return !dag.stage(x).is_reduction() && dag.info(x).special_per_point > 0 &&
             dag.info(x).points > leading_points(op, rank);
    });
    bool block = !g.tunable.empty() && !dear && out_bytes > t.target().l2_bytes &&
                 row_bytes * 16 <= t.target().l2_bytes && last >= 16 * t.target().cores;
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
    Loop all = s.fuse(rows);
    if (threads) s.parallel(all);
    t.offer_place(s, all, "rows");
  }
  Loop chunk = vectorized(axes.back());
  if (threads && rows.empty()) s.parallel(chunk);
}

HEDDLE_REGISTER_META_TEMPLATE({"direct_compute", 0, matches, build});

}  // namespace
}  // namespace heddle::meta
