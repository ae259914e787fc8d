// Reads that are contiguous along another axis than the result. Tiles go through shared memory, so
// that both sides are accessed contiguously.
//
//   for tile (blockIdx.x) {
//     for rows (threadIdx.y) { for vectors (threadIdx.x) { tile[i][j..] = A[i][j..] } }
//     for rows (threadIdx.y) { for vectors (threadIdx.x) { B[j][i..] = tile[i..][j] } }
//   }
//
// Short dimensions behind the rows of the result, such as the taps of a filter, belong to the elements of its
// tiles: W[k, c, r, s] = A[r, s, c, k] has tiles of k and c, with all taps.
//
// Knobs: tile (its side), vector, tile_rows (rows of threads).
#include "cuda/direct.h"

namespace heddle::meta {
namespace {

// Shorter runs give short accesses in both orders.
constexpr int64_t kLeastRun = 16;

// The position of the axis whose elements, with those of the short axes behind it, are runs of the result.
size_t run_axis(const std::vector<Axis>& axes) {
  int64_t run = 1;
  for (size_t d = axes.size(); d-- > 0;) {
    if (axes[d].extent() >= kLeastRun || d == 0 || run * axes[d].extent() > kLeastRun) return d;
    run *= axes[d].extent();
  }
  return 0;
}

// A tensor that is contiguous along axis `along` of the output stage.
struct Turned {
  int producer = -1;
  int across = -1;  // the dimension that the axis of runs indexes
};

// The transposed reads of the output stage. Empty when one of them is more than a permutation of
// axes.
std::vector<Turned> turned_reads(const ComputeDag& dag, const StageGroup& g, int along) {
  const auto& axes = dag.stage(g.output_stage).axes();
  const Axis& run = axes[run_axis(axes)];
  std::vector<Turned> out;
  for (const Access& a : dag.info(g.output_stage).reads) {
    if (contiguous_axis(a, axes) != &axes[static_cast<size_t>(along)]) continue;
    const bool inlined =
        std::find(g.inlined.begin(), g.inlined.end(), a.producer) != g.inlined.end();
    if (inlined || a.guarded || a.producer < 0) return {};
    Turned r{a.producer, -1};
    for (size_t d = 0; d < a.indices.size(); ++d) {
      if (!a.affine[d] || a.affine[d]->terms.size() > 1) return {};
      const int64_t c = a.affine[d]->coefficient(run.var());
      if (c == 0) continue;
      if (c != 1 || r.across >= 0 || a.affine[d]->constant != 0) return {};
      r.across = static_cast<int>(d);
    }
    if (r.across < 0 || a.affine.back()->constant != 0) return {};
    out.push_back(r);
  }
  return out;
}

// Features of a result of rows x columns whose operands are contiguous along its rows.
struct TransposeProblem {
  int64_t rows = 1, columns = 1;
  int64_t lanes = 1;  // elements of a 16-byte access
  int64_t tiles = 1;  // number of transposed tensors
  int64_t taps = 1;   // elements of the short dimensions behind a column
  Gpu gpu;

  int64_t element_bytes() const { return 16 / lanes; }
  // The longest vector that both sides allow.
  int64_t widest() const { return whole_vector(rows, whole_vector(columns, lanes)); }
  // Whether `down` rows of threads with `vector` elements each make at least a warp and at most a
  // block.
  bool threads_fit(int64_t side, int64_t vector, int64_t down) const {
    const int64_t n = side / vector * down;
    return n >= kWarp && n <= most_block_threads(gpu) && side >= vector;
  }
  bool memory_fits(int64_t side) const {
    return tiles * taps * side * (side + 1) * element_bytes() <= gpu.smem_per_block;
  }
  NamedFeatures features() const {
    const auto number = [](auto x) { return static_cast<double>(x); };
    return {{"rows", number(rows)},
            {"columns", number(columns)},
            {"lanes", number(lanes)},
            {"tiles", number(tiles)},
            {"taps", number(taps)},
            {"smem_per_block_bytes", number(gpu.smem_per_block)},
            {"block_threads", number(most_block_threads(gpu))}};
  }
};

// Chooses vector, tile (its side) and tile_rows (rows of threads).
Choice transpose_rule(const TransposeProblem& p) {
  // Sides of a tile: with vectors, with single elements, and the least.
  constexpr int64_t kSide = 64, kShortSide = 32, kLeastSide = 16;
  constexpr int64_t kDown = 16, kDownOfElements = 8, kLeastDown = 4;
  const int64_t widest = p.widest(), most = most_block_threads(p.gpu);
  int64_t side = std::min(p.rows, p.columns) < kSide || p.taps > 1 ? kShortSide : kSide;
  int64_t down = widest > 1 ? kDown : kDownOfElements;
  while (side > kLeastSide && !p.memory_fits(side)) side /= 2;
  while (down > kLeastDown && side / widest * down > most) down /= 2;
  while (side > kLeastSide && side / widest * down > most) side /= 2;
  return Choice()
      .set("vector", widest, "16-byte accesses on both sides")
      .set("tile", side, "long runs in memory, and several tiles to a multiprocessor")
      .set("tile_rows", down, "several accesses a thread under way");
}

struct TransposeKnobs {
  Param vector, tile, rows;
};

TransposeKnobs ask(TemplateBuilder& t, const TransposeProblem& p) {
  const Choice choice = t.decide("cuda_transpose", p, transpose_rule);
  TransposeKnobs k;
  k.vector = t.knob("vector", powers_of_two(1, p.widest()), choice);
  k.tile = t.knob("tile", {16, 32, 64, 128}, choice);
  k.rows = t.knob("tile_rows", {4, 8, 16, 32}, choice);
  t.require("the threads of a tile are a warp at least, and no more than a block may have",
            [=](const TemplateBuilder::Value& v) {
              return p.threads_fit(v(k.tile), v(k.vector), v(k.rows));
            });
  t.require("the tiles fit shared memory",
            [=](const TemplateBuilder::Value& v) { return p.memory_fits(v(k.tile)); });
  return k;
}

// The loops of the output stage over its axis `along` and its axis `run` of runs. Returns the block loop.
Loop output_loops(StageRef s, size_t along, size_t run, const TransposeKnobs& k) {
  std::vector<Loop> axes = s.all_axes();
  auto [jo, ji] = s.split(axes[along], k.tile);
  auto [io, ii] = s.split(axes[run], k.tile);
  auto [round, row] = s.split(ji, k.rows);
  std::vector<Loop> outer, elements{ii};
  for (size_t d = 0; d < axes.size(); ++d) {
    if (d > run) elements.push_back(axes[d]);
    if (d < run && d != along) outer.push_back(axes[d]);
  }
  // Neighbouring blocks read neighbouring tiles of one row.
  outer.push_back(io);
  outer.push_back(jo);
  std::vector<Loop> order = outer;
  for (Loop l : {row, round}) order.push_back(l);
  order.insert(order.end(), elements.begin(), elements.end());
  s.reorder(order);
  // With short dimensions behind the columns a row of threads goes over them once for each element of these.
  Loop tap, in_tile = ii;
  if (elements.size() > 1) {
    const auto [taps, tile] = s.split(s.fuse(elements), k.tile);
    tap = taps;
    in_tile = tile;
  }
  auto [column, lane] = s.split(in_tile, k.vector);
  order = outer;
  for (Loop l : {row, column, round}) order.push_back(l);
  if (elements.size() > 1) order.push_back(tap);
  order.push_back(lane);
  s.reorder(order);
  if (elements.size() > 1) s.unroll(tap);
  const Loop block = s.fuse(outer);
  s.bind(block, LoopKind::BlockX);
  s.bind(row, LoopKind::ThreadY);
  s.bind(column, LoopKind::ThreadX);
  s.unroll(round);
  s.vectorize(lane);
  return block;
}

// Copies the tile of tensor `x` to shared memory, read along its own rows.
void copy_tile(TemplateBuilder& t, const Turned& x, StageRef s, Loop block,
               const TransposeKnobs& k) {
  StageRef copy = t.stage(x.producer).cache_read({s});
  copy.set_scope(Scope::Shared);
  copy.storage_pad(1);  // the elements of a column lie in different banks
  std::vector<Loop> axes = copy.all_axes(), order;
  auto [round, row] = copy.split(axes[static_cast<size_t>(x.across)], k.rows);
  auto [column, lane] = copy.split(axes.back(), k.vector);
  for (size_t d = 0; d + 1 < axes.size(); ++d) {
    if (static_cast<int>(d) != x.across) order.push_back(axes[d]);
  }
  for (Loop loop : {row, column, round, lane}) order.push_back(loop);
  copy.reorder(order);
  copy.bind(row, LoopKind::ThreadY);
  copy.bind(column, LoopKind::ThreadX);
  copy.unroll(round);
  copy.vectorize(lane);
  copy.compute_at(s, block);
}

}  // namespace

bool transpose_by_tiles(TemplateBuilder& t, const StageGroup& g) {
  const ComputeDag& dag = t.dag();
  const Operation& op = dag.stage(g.output_stage);
  const int along = transposed_axis(dag, g.output_stage);
  if (along < 0) return false;
  TransposeProblem p;
  const size_t run = run_axis(op.axes());
  if (static_cast<size_t>(along) >= run) return false;
  p.rows = op.axes()[static_cast<size_t>(along)].extent();
  p.columns = op.axes()[run].extent();
  for (size_t d = run + 1; d < op.axes().size(); ++d) p.taps *= op.axes()[d].extent();
  if (std::min(p.rows, p.columns) < kLeastRun) return false;
  const std::vector<Turned> turned = turned_reads(dag, g, along);
  if (turned.empty()) return false;
  p.lanes = access_lanes(dag, g.output_stage);
  p.tiles = std::ssize(turned);
  p.gpu = t.target().gpu;

  StageRef s = t.stage(g.output_stage);
  streaming_stores(t, s);
  const TransposeKnobs knobs = ask(t, p);
  const Loop block = output_loops(s, static_cast<size_t>(along), run, knobs);
  for (const Turned& x : turned) copy_tile(t, x, s, block, knobs);
  t.note("by tiles through shared memory: a read is transposed");
  return true;
}

}  // namespace heddle::meta
