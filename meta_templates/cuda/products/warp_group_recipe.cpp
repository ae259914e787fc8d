// clang-format off
//   for tiles of rows x columns (persistent blockIdx.x):      64*group_tiles*groups x group_cols
//     C.local[..] = 0                                         registers of the warp groups
//     for k_tile of 128 bytes:                                `group_stages` tiles under way
//       A.tile, B.tile = a box of each operand                shared memory, by TMA
//       for groups (threadIdx.z): for 4 warps (threadIdx.y):
//         for 4 steps: for 64-row tiles: wgmma                unrolled
//     output stage[..] = epilogue(C.local)                    two columns a lane
//   or, with `store` 1 or 2:
//     results[..] = epilogue(C.local)                         shared memory, in boxes
//     output stage[..] = results[..]                          by TMA, a box of 64 rows at a time
//   or, with `store` 3:
//     results[..] = epilogue(C.local)                         shared memory, in pieces of 16 bytes
//     output stage[..] = results[..]                          a piece a lane, four of a row side by side
//   or, where the rows are several axes, with the sums in `results` and the epilogue in the last line.
// clang-format on
//
// Lowering gives the loads a warp group of their own (lower/gpu/warp_group/warp_roles.cpp).
// Operands may have
// any size: TMA writes zeros beyond the ends, and results there are not stored. The rows of a
// convolution are windows of an image, which TMA finds by itself (im2col).
#include "cuda/products/warp_group.h"

#include <algorithm>

#include "cuda/products/warp_group_loops.h"
#include "cuda/products/window_shape.h"

namespace heddle::meta {
namespace {

class Recipe : GroupLoops {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
         const WarpGroupKnobs& knobs, bool pairs, bool by_tile = false)
      : GroupLoops(t, shape, knobs, pairs, by_tile),
        g_(g),
        row_multiple_(pairs ? 2 * wgmma::kRows : wgmma::kRows) {}

  void run() {
    StageRef output = t_.stage(g_.output_stage), acc = padded_sum();
    const Loop place = block_loops(output);
    accumulate(acc, output, place);
  }

  void run_with_boxes() {
    StageRef output = t_.stage(g_.output_stage), acc = padded_sum();
    StageRef results = padded_results(output);
    const Boxes boxes = box_loops(output);
    fill_boxes(results, output, by_tile_ ? boxes.unit : boxes.block, knobs_.box_row);
    accumulate(acc, output, boxes.block);
  }

  void run_with_pieces() {
    StageRef output = t_.stage(g_.output_stage), acc = padded_sum();
    StageRef results = shape_.view() ? acc.cache_read({output}) : padded_results(output);
    const Boxes pieces = piece_loops(output);
    fill_boxes(results, output, pieces.unit, knobs_.piece());
    accumulate(acc, output, pieces.block);
  }

 private:
  StageRef padded_results(StageRef output) const {
    return output.pad(
        {{output.axis(shape_.row_axis()), row_multiple_, knobs_.group_tiles, knobs_.groups},
         {output.axis(shape_.col_axis()), knobs_.group_cols}});
  }

  StageRef padded_sum() {
    StageRef anchor = t_.stage(g_.anchor);
    StageRef sum = shape_.view() ? viewed_sum(anchor) : plain_sum(anchor);
    if (g_.output_stage != g_.anchor) anchor.compute_inline();
    return sum;
  }

  StageRef plain_sum(StageRef anchor) {
    const ContractionShape& axes = shape_.axes();
    for (const auto* operand : {&*axes.row, &*axes.vector})
      tiles_.push_back(t_.stage(operand->producer).cache_read({anchor}));
    return anchor.pad({{anchor.axis(axes.m), row_multiple_, knobs_.group_tiles, knobs_.groups},
                       {anchor.axis(axes.v), knobs_.group_cols},
                       {anchor.reduce_axis(0), group_box_row(shape_.pack())}});
  }

  StageRef viewed_sum(StageRef anchor) {
    StageRef::ProductView v = product_step(anchor, *shape_.view());
    v.row_multiple = {row_multiple_, knobs_.group_tiles, knobs_.groups};
    v.col_multiple = {knobs_.group_cols, 1, 1};
    v.depth_multiple = {group_box_row(shape_.pack()), 1, 1};
    const StageRef::Product made = anchor.as_product(v);
    tiles_ = {made.rows, made.cols};
    return made.sum;
  }

  // Returns the block loop.
  Loop block_loops(StageRef s) const {
    const Axes axes = axes_of_output(s);
    const Rows rows = cut_rows(s, axes.rows);
    auto [row_block, group] =
        s.split(rows.group_rows, knobs_.groups, TailStrategy::PredicateStores);
    const Blocks blocks = cut_blocks(s, axes, row_block, group);
    const Lanes l = cut_lanes(s, rows, blocks.col);
    const Loop place = bind_blocks(
        s, blocks,
        {blocks.group, rows.warp, l.lane_row, l.lane_col, rows.tile, l.col_tile, l.half, l.pair});
    bind_lanes(s, rows, l);
    return place;
  }

  // Boxes of 64 rows, which their warp group stores. A unit is one for each warp group, or, where
  // tiles do not leave one after the other, one of a warp group.
  struct Boxes {
    Loop block, unit;
  };
  Boxes box_loops(StageRef s) const {
    const TailStrategy whole = TailStrategy::PredicateStores;
    const Axes axes = axes_of_output(s);
    auto [units, row] = s.split(axes.rows, wgmma::kRows, whole);
    const Param inner = by_tile_ ? knobs_.groups : knobs_.group_tiles,
                outer = by_tile_ ? knobs_.group_tiles : knobs_.groups;
    auto [outers, of_inner] = s.split(units, inner, whole);
    auto [row_block, of_outer] = s.split(outers, outer, whole);
    const Loop group = by_tile_ ? of_inner : of_outer, unit = by_tile_ ? of_outer : of_inner;
    const Blocks blocks = cut_blocks(s, axes, row_block, group);
    if (shape_.is_exchanged()) {  // the box has a line for each column of the tile
      const Loop place = bind_blocks(s, blocks, {of_outer, of_inner, blocks.col, row});
      s.unroll(unit);
      s.tensorize(blocks.col, "tma_store");
      return {place, unit};
    }
    auto [box, col] = s.split(blocks.col, knobs_.box_row, whole);
    const Loop place = bind_blocks(s, blocks, {of_outer, of_inner, box, row, col});
    for (Loop u : {unit, box}) s.unroll(u);
    s.tensorize(row, "tma_store");
    return {place, unit};
  }

  // Copies pieces of 16 bytes. Eight neighbouring lanes read neighbouring rows of a column of pieces from
  // shared memory, and a warp stores four pieces of each row side by side.
  Boxes piece_loops(StageRef s) const {
    const TailStrategy whole = TailStrategy::PredicateStores;
    const Axes axes = axes_of_output(s);
    const Rows rows = cut_rows(s, axes.rows);
    auto [row_block, tile] = s.split(rows.tile, knobs_.group_tiles, whole);
    const Blocks blocks = cut_blocks(s, axes, row_block, rows.group_rows);
    auto [half, lane_row] = s.split(rows.in, 8);
    auto [piece, in_piece] = s.split(blocks.col, knobs_.piece(), whole);
    auto [round, lane_piece] = s.split(piece, 4, whole);
    const Loop place = bind_blocks(
        s, blocks, {tile, blocks.group, rows.warp, half, round, lane_piece, lane_row, in_piece});
    s.bind(s.fuse(lane_piece, lane_row), LoopKind::ThreadX);
    s.bind(rows.warp, LoopKind::ThreadY);
    for (Loop u : {tile, half, round}) s.unroll(u);
    s.vectorize(in_piece);
    return {place, tile};
  }

  // The results of a tile, in boxes with rows of `row` elements.
  void fill_boxes(StageRef s, StageRef output, Loop place, int64_t row) const {
    s.compute_at(output, place);
    s.set_scope(Scope::Shared);
    const Axes axes = axes_of_sum(s);
    const int line = shape_.is_exchanged() ? shape_.col_axis() : shape_.row_axis(),
              along = shape_.is_exchanged() ? shape_.row_axis() : shape_.col_axis();
    lay_out(s, tma::along_depth(line, along, row));
    const Rows rows = cut_rows(s, axes.rows);
    const Lanes l = cut_lanes(s, rows, axes.cols);
    std::vector<Loop> order = axes.outer;
    order.insert(order.end(), {rows.group_rows, rows.warp, l.lane_row, l.lane_col, rows.tile,
                               l.col_tile, l.half, l.pair});
    s.reorder(order);
    s.bind(rows.group_rows, LoopKind::ThreadZ);
    bind_lanes(s, rows, l);
  }

  void accumulate(StageRef acc, StageRef host, Loop place) {
    const Axes axes = axes_of_sum(acc);
    const Rows rows = cut_rows(acc, axes.rows);
    auto [col_block, col] = acc.split(axes.cols, knobs_.group_cols, TailStrategy::PredicateStores);
    auto [k_tile, k_in] = acc.split(acc.reduce_axis(0), group_box_row(shape_.pack()));
    auto [step, k] = acc.split(k_in, shape_.mma_k());
    std::vector<Loop> order = axes.outer;
    order.insert(order.end(),
                 {col_block, k_tile, rows.group_rows, rows.warp, step, rows.tile, rows.in, col, k});
    acc.reorder(order);
    acc.bind(rows.group_rows, LoopKind::ThreadZ);
    acc.bind(rows.warp, LoopKind::ThreadY);
    for (Loop u : {step, rows.tile}) acc.unroll(u);
    acc.tensorize(rows.in, "wgmma");
    lay_out(acc, mma::accumulator(shape_.row_axis(), shape_.col_axis()));
    acc.compute_at(host, place);
    for (size_t o = 0; o < 2; ++o) load_boxes(tiles_[o], shape_.layout(o), acc, k_tile);
  }

  // Loads the tile by one box of all lines where they run along the depth, otherwise by boxes of 64
  // lines.
  void load_boxes(StageRef tile, const TensorCoreShape::Layout& layout, StageRef acc, Loop k_tile) {
    tile.compute_at(acc, k_tile);
    tile.set_scope(Scope::Shared);
    tile.multi_buffer(knobs_.group_stages);
    const Loop line = tile.axis(layout.line_dim), depth = tile.axis(layout.depth_dim);
    std::vector<Loop> order;
    for (int d = 0; d < tile.num_axes(); ++d) {
      if (d != layout.line_dim && d != layout.depth_dim) order.push_back(tile.axis(d));
    }
    if (layout.line_dim < layout.depth_dim) {
      order.insert(order.end(), {line, depth});
      tile.reorder(order);
      tile.tensorize(line, "tma_load");
      return;
    }
    lay_out(tile, tma::across_depth(layout.line_dim, layout.depth_dim, wgmma::kLinesAcross));
    auto [box, in] = tile.split(line, wgmma::kLinesAcross, TailStrategy::PredicateStores);
    order.insert(order.end(), {box, depth, in});
    tile.reorder(order);
    tile.unroll(box);
    tile.tensorize(depth, "tma_load");
  }

  const StageGroup& g_;
  const int64_t row_multiple_;   // rows that blocks, or pairs of them, divide
  std::vector<StageRef> tiles_;  // the tile of the rows, that of the columns
};

}  // namespace

bool may_be_at_root(const StageGroup& g, int s) {
  return std::find(g.tunable.begin(), g.tunable.end(), s) != g.tunable.end();
}

bool takes_warp_groups(const ComputeDag& dag, const StageGroup& g, const TensorCoreShape& shape,
                       const Gpu& gpu) {
  constexpr size_t kMostDims = 5;
  constexpr int kFewestThreads = 256;  // threads: a warp group that loads, one that multiplies
  if (!gpu.has_wgmma() || gpu.threads_per_block < kFewestThreads) return false;
  if (shape.view()) return takes_windows(dag, g, shape);
  // Each of the four warps of a group has 16 rows: of no more rows in all, three warps would have
  // none. The index of a single step is a constant, by which lowering does not recognise a box.
  constexpr int64_t kLeastDepth = 8;
  if (shape.axes().rows <= wgmma::kRowsOfWarp || shape.axes().depth < kLeastDepth) return false;
  for (size_t o = 0; o < 2; ++o) {
    const Access& a = o == 0 ? *shape.axes().row : *shape.axes().vector;
    const bool sixteen_bytes = shape.layout(o).vector >= 4 * shape.pack();
    if (!sixteen_bytes || a.tensor.extents().size() > kMostDims) return false;
    if (shape.pack() != 2 && !shape.lies_along_depth(o)) return false;
    if (!can_be_in_memory(dag, g, a.producer) && !may_be_at_root(g, a.producer)) return false;
  }
  return true;
}

void warp_group_product(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
                        const WarpGroupKnobs& knobs) {
  const auto by_pairs = [&](const TensorCoreShape& of, bool pairs) {
    if (knobs.box_row == 0) return Recipe(t, g, of, knobs, pairs).run();
    t.when(knobs.store, 0, [&] { Recipe(t, g, of, knobs, pairs).run(); });
    if (!of.is_exchanged())
      t.when(knobs.store, 3, [&] { Recipe(t, g, of, knobs, pairs, true).run_with_pieces(); });
    if (of.view()) return;
    t.when(knobs.store, 1, [&] { Recipe(t, g, of, knobs, pairs).run_with_boxes(); });
    if (of.is_exchanged()) return;
    t.when(knobs.store, 2, [&] { Recipe(t, g, of, knobs, pairs, true).run_with_boxes(); });
  };
  for (const bool pairs : {false, true}) {
    t.when(knobs.pairs, pairs ? 1 : 0, [&] {
      if (knobs.exchanged.is_const()) return by_pairs(shape, pairs);
      t.when(knobs.exchanged, 0, [&] { by_pairs(shape, pairs); });
      t.when(knobs.exchanged, 1, [&] { by_pairs(shape.exchanged(), pairs); });
    });
  }
}

}  // namespace heddle::meta
