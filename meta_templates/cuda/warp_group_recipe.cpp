// clang-format off
//   for tiles of rows x columns (persistent blockIdx.x):      64*group_tiles*groups x group_cols
//     C.local[..] = 0                                         registers of the warp groups
//     for k_tile of 128 bytes:                                `group_stages` tiles under way
//       A.tile, B.tile = a box of each operand                shared memory, by TMA
//       for groups (threadIdx.z): for 4 warps (threadIdx.y):
//         for 4 steps: for 64-row tiles: wgmma                unrolled
//     output stage[..] = epilogue(C.local)                    two columns a lane
// clang-format on
//
// Lowering gives the loads a warp group of their own (lower/gpu/warp_roles.cpp). Operands may have
// any size: TMA writes zeros beyond the ends, and results there are not stored.
#include "cuda/warp_group.h"

namespace heddle::meta {
namespace {

constexpr int64_t kLaneRows = 16, kGroupWarps = 4, kGroupRows = 64;
constexpr int64_t kBoxLines = 64;  // lines of a box whose rows run across the depth (16-bit floats)

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
         const WarpGroupKnobs& knobs)
      : t_(t), g_(g), shape_(shape), knobs_(knobs) {}

  void run() {
    StageRef output = t_.stage(g_.output_stage), acc = padded_sum();
    const Loop place = block_loops(output);
    accumulate(acc, output, place);
  }

 private:
  StageRef padded_sum() {
    StageRef anchor = t_.stage(g_.anchor);
    const ContractionShape& axes = shape_.axes();
    for (const auto* operand : {&*axes.row, &*axes.vector})
      tiles_.push_back(t_.stage(operand->producer).cache_read({anchor}));
    StageRef sum = anchor.pad({{anchor.axis(axes.m), kGroupRows, knobs_.group_tiles, knobs_.groups},
                               {anchor.axis(axes.v), knobs_.group_cols},
                               {anchor.reduce_axis(0), group_box_row(shape_.pack())}});
    if (g_.output_stage != g_.anchor) anchor.compute_inline();
    return sum;
  }

  std::vector<Loop> outer_axes(StageRef s) const {
    std::vector<Loop> out;
    const ContractionShape& axes = shape_.axes();
    for (const auto* list : {&axes.batch, &axes.m_others, &axes.v_others}) {
      for (int i : *list) out.push_back(s.axis(i));
    }
    return out;
  }

  struct Rows {
    Loop group_rows, tile, warp, in;  // group_rows: 64*group_tiles rows each
  };
  Rows cut_rows(StageRef s) const {
    const TailStrategy whole = TailStrategy::PredicateStores;
    auto [warps, in] = s.split(s.axis(shape_.axes().m), kLaneRows, whole);
    auto [tiles, warp] = s.split(warps, kGroupWarps, whole);
    auto [group_rows, tile] = s.split(tiles, knobs_.group_tiles, whole);
    return {group_rows, tile, warp, in};
  }

  // Each lane stores two columns: row = 8*i + lane / 4, column = 2*(lane % 4) + j. Returns the
  // block loop.
  Loop block_loops(StageRef s) const {
    const TailStrategy whole = TailStrategy::PredicateStores;
    const Rows rows = cut_rows(s);
    auto [row_block, group] = s.split(rows.group_rows, knobs_.groups, whole);
    auto [raster, row_of_raster] = s.split(row_block, knobs_.raster, whole);
    auto [col_block, col] = s.split(s.axis(shape_.axes().v), knobs_.group_cols, whole);
    auto [col_tile, col_in] = s.split(col, 8, whole);
    auto [lane_col, pair] = s.split(col_in, 2);
    auto [half, lane_row] = s.split(rows.in, 8);
    std::vector<Loop> blocks = outer_axes(s);
    blocks.insert(blocks.end(), {raster, col_block, row_of_raster});
    std::vector<Loop> order = blocks;
    order.insert(order.end(),
                 {group, rows.warp, lane_row, lane_col, rows.tile, col_tile, half, pair});
    s.reorder(order);
    const Loop block = s.fuse(blocks);
    s.bind(s.fuse(lane_row, lane_col), LoopKind::ThreadX);
    s.bind(block, LoopKind::PersistentX);
    s.bind(group, LoopKind::ThreadZ);
    s.bind(rows.warp, LoopKind::ThreadY);
    for (Loop u : {rows.tile, col_tile, half}) s.unroll(u);
    s.vectorize(pair);
    return block;
  }

  void accumulate(StageRef acc, StageRef host, Loop place) {
    const Rows rows = cut_rows(acc);
    auto [col_block, col] =
        acc.split(acc.axis(shape_.axes().v), knobs_.group_cols, TailStrategy::PredicateStores);
    auto [k_tile, k_in] = acc.split(acc.reduce_axis(0), group_box_row(shape_.pack()));
    auto [step, k] = acc.split(k_in, shape_.mma_k());
    std::vector<Loop> order = outer_axes(acc);
    order.insert(order.end(),
                 {col_block, k_tile, rows.group_rows, rows.warp, step, rows.tile, rows.in, col, k});
    acc.reorder(order);
    acc.bind(rows.group_rows, LoopKind::ThreadZ);
    acc.bind(rows.warp, LoopKind::ThreadY);
    for (Loop u : {step, rows.tile}) acc.unroll(u);
    acc.tensorize(rows.in);
    acc.layout(register_layout(acc));
    acc.compute_at(host, place);
    for (size_t o = 0; o < 2; ++o) load_boxes(tiles_[o], shape_.layout(o), acc, k_tile);
  }

  // The layout [.. m/16][n/8] [m%8][n/2%4] [m/8%2][n%2]: see lower/gpu/tile_nest.h.
  std::vector<StageRef::StorageDim> register_layout(StageRef acc) const {
    const int m = shape_.axes().m, n = shape_.axes().v;
    std::vector<StageRef::StorageDim> dims;
    for (int d = 0; d < acc.num_axes(); ++d) {
      if (d != m && d != n) dims.push_back({d, 1, 0});
    }
    dims.insert(dims.end(), {{m, 16, 0}, {n, 8, 0}, {m, 1, 8}, {n, 2, 4}, {m, 8, 2}, {n, 1, 2}});
    return dims;
  }

  // Loads the tile by one box of all lines where they run along the depth, otherwise by boxes of 64
  // lines.
  void load_boxes(StageRef tile, const TensorCoreShape::Layout& layout, StageRef acc, Loop k_tile) {
    tile.compute_at(acc, k_tile);
    tile.set_scope(Scope::Shared);
    tile.multi_buffer(knobs_.group_stages);
    const Loop line = tile.axis(layout.line_dim), depth = tile.axis(layout.depth_dim);
    std::vector<Loop> order;
    std::vector<StageRef::StorageDim> dims;
    for (int d = 0; d < tile.num_axes(); ++d) {
      if (d == layout.line_dim || d == layout.depth_dim) continue;
      order.push_back(tile.axis(d));
      dims.push_back({d, 1, 0});
    }
    if (layout.line_dim < layout.depth_dim) {
      order.insert(order.end(), {line, depth});
      tile.reorder(order);
      tile.tensorize(line);
      return;
    }
    dims.insert(dims.end(), {{layout.line_dim, kBoxLines, 0},
                             {layout.depth_dim, 1, 0},
                             {layout.line_dim, 1, kBoxLines}});
    tile.layout(dims);
    auto [box, in] = tile.split(line, kBoxLines, TailStrategy::PredicateStores);
    order.insert(order.end(), {box, depth, in});
    tile.reorder(order);
    tile.unroll(box);
    tile.tensorize(depth);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const TensorCoreShape& shape_;
  const WarpGroupKnobs& knobs_;
  std::vector<StageRef> tiles_;  // the tile of the rows, that of the columns
};

}  // namespace

namespace {

// Whether `stage`, read by the anchor of `g`, can be in memory. (Stages that only move elements may
// be inlined by another group that reads them too.)
bool can_be_in_memory(const ComputeDag& dag, const StageGroup& g, int stage) {
  const Operation& op = dag.stage(stage);
  if (op.is_placeholder()) return true;
  const auto has = [&](const std::vector<int>& list) {
    return std::find(list.begin(), list.end(), stage) != list.end();
  };
  if (has(g.inlined) || has(g.operands)) return false;
  const StageInfo& info = dag.info(stage);
  return info.is_output || op.is_reduction() || info.flops_per_point > 0;
}

}  // namespace

bool takes_warp_groups(const ComputeDag& dag, const StageGroup& g, const TensorCoreShape& shape,
                       const Gpu& gpu) {
  constexpr size_t kMostDims = 5;
  constexpr int kFewestThreads = 256;  // threads: a warp group that loads, one that multiplies
  if (!gpu.has_wgmma() || gpu.threads_per_block < kFewestThreads || shape.view()) return false;
  // A single tile needs no ring.
  if (shape.axes().depth <= group_box_row(shape.pack())) return false;
  for (size_t o = 0; o < 2; ++o) {
    const Access& a = o == 0 ? *shape.axes().row : *shape.axes().vector;
    const bool sixteen_bytes = shape.layout(o).vector >= 4 * shape.pack();
    if (!sixteen_bytes || a.tensor.extents().size() > kMostDims) return false;
    if (shape.pack() != 2 && !shape.lies_along_depth(o)) return false;
    if (!can_be_in_memory(dag, g, a.producer)) return false;
  }
  return true;
}

void warp_group_product(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
                        const WarpGroupKnobs& knobs) {
  Recipe(t, g, shape, knobs).run();
}

}  // namespace heddle::meta
