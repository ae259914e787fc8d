// A read that runs along another axis than the result: tiles through shared memory, so that both
// sides are contiguous in memory.
//
//   for tile (blockIdx.x) {
//     for rows (threadIdx.y) { for vectors (threadIdx.x) { tile[i][j..] = A[i][j..] } }
//     for rows (threadIdx.y) { for vectors (threadIdx.x) { B[j][i..] = tile[i..][j] } }
//   }
//
// Knobs: tile (its side), vector, tile_rows (of threads).
#include "cuda/direct.h"

namespace heddle::meta {
namespace {

// A tensor that is read along axis `along` of the output stage, and how.
struct Turned {
  int producer = -1;
  int across = -1;  // its dimension that the output stage's last axis runs along
};

// The turned reads of the output stage; empty when one of them is more than a permutation of axes.
std::vector<Turned> turned_reads(const ComputeDag& dag, const StageGroup& g, int along) {
  const auto& axes = dag.stage(g.output_stage).axes();
  std::vector<Turned> out;
  for (const Access& a : dag.info(g.output_stage).reads) {
    if (contiguous_axis(a, axes) != &axes[static_cast<size_t>(along)]) continue;
    const bool inlined =
        std::find(g.inlined.begin(), g.inlined.end(), a.producer) != g.inlined.end();
    if (inlined || a.guarded || a.producer < 0) return {};
    Turned r{a.producer, -1};
    for (size_t d = 0; d < a.indices.size(); ++d) {
      if (!a.affine[d] || a.affine[d]->terms.size() > 1) return {};
      const int64_t c = a.affine[d]->coefficient(axes.back().var());
      if (c == 0) continue;
      if (c != 1 || r.across >= 0 || a.affine[d]->constant != 0) return {};
      r.across = static_cast<int>(d);
    }
    if (r.across < 0 || a.affine.back()->constant != 0) return {};
    out.push_back(r);
  }
  return out;
}

}  // namespace

bool transpose_by_tiles(TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(g.output_stage);
  const int along = transposed_axis(dag, g.output_stage);
  if (along < 0) return false;
  const int64_t rows = op.axes()[static_cast<size_t>(along)].extent();
  const int64_t columns = op.axes().back().extent();
  if (std::min(rows, columns) < 16) return false;  // chunks are short either way
  const std::vector<Turned> turned = turned_reads(dag, g, along);
  if (turned.empty()) return false;

  StageRef s = t.stage(g.output_stage);
  streaming_stores(t, s);
  const int64_t lanes = access_lanes(dag, g.output_stage);
  const int64_t bytes = 16 / lanes;
  const int64_t widest = whole_vector(rows, whole_vector(columns, lanes));
  const int64_t smem = t.target().gpu.smem_per_block, tiles = static_cast<int64_t>(turned.size());
  const int64_t most = most_block_threads(t.target().gpu);
  auto threads_fit = [=](int64_t side, int64_t lanes_of_one, int64_t down) {
    const int64_t n = side / lanes_of_one * down;
    return n >= kWarp && n <= most && side >= lanes_of_one;
  };
  auto memory_fits = [=](int64_t side) { return tiles * side * (side + 1) * bytes <= smem; };
  int64_t side = std::min(rows, columns) < 64 ? 32 : 64, down = widest > 1 ? 16 : 8;
  while (side > 16 && !memory_fits(side)) side /= 2;
  while (down > 4 && side / widest * down > most) down /= 2;
  while (side > 16 && side / widest * down > most) side /= 2;
  Param vector =
      t.knob("vector", powers_of_two(1, widest), widest, "16-byte accesses on both sides");
  Param tile = t.knob("tile", {16, 32, 64, 128}, side,
                      "long runs in memory, and several tiles to a multiprocessor");
  Param thread_rows =
      t.knob("tile_rows", {4, 8, 16, 32}, down, "several accesses a thread under way");
  t.require("the threads of a tile are a warp at least, and no more than a block may have",
            [=](const TemplateBuilder::Value& v) {
              return threads_fit(v(tile), v(vector), v(thread_rows));
            });
  t.require("the tiles fit shared memory",
            [=](const TemplateBuilder::Value& v) { return memory_fits(v(tile)); });

  std::vector<Loop> axes = s.all_axes();
  auto [jo, ji] = s.split(axes[static_cast<size_t>(along)], tile);
  auto [io, ii] = s.split(axes.back(), tile);
  auto [round, row] = s.split(ji, thread_rows);
  auto [column, lane] = s.split(ii, vector);
  std::vector<Loop> outer, order;
  for (size_t d = 0; d + 1 < axes.size(); ++d) {
    if (static_cast<int>(d) != along) outer.push_back(axes[d]);
  }
  // Neighbouring blocks read neighbouring tiles of one row.
  outer.push_back(io);
  outer.push_back(jo);
  order = outer;
  for (Loop l : {row, column, round, lane}) order.push_back(l);
  s.reorder(order);
  const Loop block = s.fuse(outer);
  s.bind(block, LoopKind::BlockX);
  s.bind(row, LoopKind::ThreadY);
  s.bind(column, LoopKind::ThreadX);
  s.unroll(round);
  s.vectorize(lane);
  for (const Turned& x : turned) {
    StageRef copy = t.stage(x.producer).cache_read({s});
    copy.set_scope(Scope::Shared);
    copy.storage_pad(1);  // the elements of a column lie in different banks
    std::vector<Loop> own = copy.all_axes(), in_order;
    auto [r, y] = copy.split(own[static_cast<size_t>(x.across)], thread_rows);
    auto [c, l] = copy.split(own.back(), vector);
    for (size_t d = 0; d + 1 < own.size(); ++d) {
      if (static_cast<int>(d) != x.across) in_order.push_back(own[d]);
    }
    for (Loop loop : {y, c, r, l}) in_order.push_back(loop);
    copy.reorder(in_order);
    copy.bind(y, LoopKind::ThreadY);
    copy.bind(c, LoopKind::ThreadX);
    copy.unroll(r);
    copy.vectorize(l);
    copy.compute_at(s, block);
  }
  t.note("by tiles through shared memory: a read is transposed");
  return true;
}

}  // namespace heddle::meta
