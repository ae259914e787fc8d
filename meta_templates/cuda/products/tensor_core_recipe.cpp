// clang-format off
//   for blocks (blockIdx): a tile of rows x columns            row_tiles*row_warps x col_tiles*col_warps
//     C.local[..] = 0                                          fragments in registers: a warp's part
//     for k_tile, of tile_k mma each:                          `stages` tiles under way (cp.async)
//       A.tile, B.tile = a tile of each operand                shared memory
//       for warps (threadIdx.z, threadIdx.y): for step of one mma:
//         A.frag, B.frag = ldmatrix(A.tile, B.tile)
//         for 16 rows: for 8 columns: mma                      unrolled
//     output stage[..] = epilogue(C.local)                     two columns a lane
//
// reduction = split_k: each block reduces a part of k_part steps; a second kernel adds the parts up.
// clang-format on
//
// Operands may have any size: elements of a tile beyond an operand are zero, and results there are
// not stored.
#include "cuda/products/tensor_core_recipe.h"

#include "cuda/products/product_loops.h"
#include "cuda/products/tensor_core_operands.h"

namespace heddle::meta {
namespace {

class Recipe {
 public:
  Recipe(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
         const TensorCoreKnobs& knobs)
      : t_(t), g_(g), shape_(shape), knobs_(knobs) {}

  void whole() {
    StageRef output_stage = t_.stage(g_.output_stage);
    StageRef acc = padded_sum(shape_.mma_k(), knobs_.tile_k);
    const Loop place = block_loops(output_stage, axes_of_output(output_stage));
    accumulate(acc, 0, output_stage, place);
  }

  void parts() {
    StageRef sum = padded_sum(knobs_.k_part, 1);
    StageRef partial = sum.rfactor(sum.reduce_axis(0), knobs_.k_part, false);
    StageRef acc = partial.cache_write();
    const Loop place = block_loops(partial, axes_of_sum(partial, 1));
    accumulate(acc, 1, partial, place);
    sum_of_parts(t_, g_, sum);
  }

 private:
  // ---- the stages ----

  // The sum over full tiles, of operands padded with zeros. Its depth is a multiple of `depth` *
  // `steps`.
  StageRef padded_sum(Param depth, Param steps) {
    StageRef anchor = t_.stage(g_.anchor);
    StageRef sum =
        shape_.view() ? viewed_sum(anchor, depth, steps) : plain_sum(anchor, depth, steps);
    if (g_.output_stage != g_.anchor) anchor.compute_inline();
    return sum;
  }

  StageRef plain_sum(StageRef anchor, Param depth, Param steps) {
    const ContractionShape& axes = shape_.axes();
    for (size_t o = 0; o < 2; ++o) {
      StageRef read = t_.stage((o == 0 ? axes.row : axes.vector)->producer);
      StageRef source = shape_.turned(o) ? read.cache_read({anchor}) : read;
      operands_.push_back({source, source.cache_read({anchor})});
    }
    return anchor.pad({{anchor.axis(axes.m), mma::kRows, knobs_.row_tiles, knobs_.row_warps},
                       {anchor.axis(axes.v), mma::kCols, knobs_.col_tiles, knobs_.col_warps},
                       {anchor.reduce_axis(0), depth, steps}});
  }

  // As padded_sum, with several axes taken as one. The operands are stages that compute the
  // addresses of their elements.
  StageRef viewed_sum(StageRef anchor, Param depth, Param steps) {
    StageRef::ProductView v = product_step(anchor, *shape_.view());
    v.row_multiple = {mma::kRows, knobs_.row_tiles, knobs_.row_warps};
    v.col_multiple = {mma::kCols, knobs_.col_tiles, knobs_.col_warps};
    v.depth_multiple = {depth, steps, 1};
    for (size_t o = 0; shape_.copies_operands() && o < 2; ++o) {
      if (shape_.innermost()->copied[o]) copy_innermost(t_, g_.anchor, *shape_.innermost(), o);
    }
    const StageRef::Product made = anchor.as_product(v);
    for (StageRef source : {made.rows, made.cols}) {
      const bool turned = shape_.turned(operands_.size());
      operands_.push_back({source, turned ? source.cache_read({made.sum}) : source});
    }
    return made.sum;
  }

  // ---- the loops ----

  // The loops of a stage for the axes of the product.
  struct Axes {
    std::vector<Loop> outer;  // batch axes
    Loop rows, cols;
  };

  // The axes of a stage that has those of the sum after `first` others.
  Axes axes_of_sum(StageRef s, int first) const {
    Axes a;
    for (int i = 0; i < first; ++i) a.outer.push_back(s.axis(i));
    if (shape_.view()) {
      const int batch = static_cast<int>(shape_.view()->batch.size());
      for (int i = 0; i < batch; ++i) a.outer.push_back(s.axis(first + i));
    } else {
      const ContractionShape& axes = shape_.axes();
      for (const auto* list : {&axes.batch, &axes.m_others, &axes.v_others}) {
        for (int i : *list) a.outer.push_back(s.axis(first + i));
      }
    }
    a.rows = s.axis(first + shape_.row_axis());
    a.cols = s.axis(first + shape_.col_axis());
    return a;
  }

  // The axes of the output stage, which are those of the declaration.
  Axes axes_of_output(StageRef s) const {
    if (!shape_.view()) return axes_of_sum(s, 0);
    const ProductLoops p = taken_together(s, *shape_.view());
    return {p.batch, p.rows, p.cols};
  }

  // An axis of rows or columns, cut into tiles of one mma that are shared out among warps.
  struct Cut {
    Loop block;  // over blocks
    Loop warp, tile, in;
  };
  Cut cut(StageRef s, Loop axis, int64_t unit, Param tiles, Param warps, bool has_blocks) const {
    Cut c;
    auto [units, in] = s.split(axis, unit, TailStrategy::PredicateStores);
    auto [warp, tile] = s.split(units, tiles, TailStrategy::PredicateStores);
    c.in = in;
    c.tile = tile;
    c.warp = warp;
    if (has_blocks) {
      auto [block, warp_of_block] = s.split(warp, warps, TailStrategy::PredicateStores);
      c.block = block;
      c.warp = warp_of_block;
    }
    return c;
  }
  Cut cut_rows(StageRef s, const Axes& a, bool has_blocks) const {
    return cut(s, a.rows, mma::kRows, knobs_.row_tiles, knobs_.row_warps, has_blocks);
  }
  Cut cut_cols(StageRef s, const Axes& a, bool has_blocks) const {
    return cut(s, a.cols, mma::kCols, knobs_.col_tiles, knobs_.col_warps, has_blocks);
  }

  static void bind_warps(StageRef s, const Cut& rows, const Cut& cols) {
    s.bind(rows.warp, LoopKind::ThreadZ);
    s.bind(cols.warp, LoopKind::ThreadY);
  }

  // The loops of the stage that tiles of results are stored to. Each lane stores two columns: row =
  // 8*i + lane / 4, column = 2*(lane % 4) + j. Returns the innermost block loop.
  Loop block_loops(StageRef s, const Axes& a) {
    const Cut rows = cut_rows(s, a, true), cols = cut_cols(s, a, true);
    auto [half, lane_row] = s.split(rows.in, 8);
    auto [lane_col, pair] = s.split(cols.in, 2);
    std::vector<Loop> order = a.outer;
    order.insert(order.end(), {cols.block, rows.block, rows.warp, cols.warp, lane_row, lane_col,
                               rows.tile, cols.tile, half, pair});
    s.reorder(order);
    s.bind(s.fuse(lane_row, lane_col), LoopKind::ThreadX);
    if (!a.outer.empty()) s.bind(s.fuse(a.outer), LoopKind::BlockZ);
    s.bind(cols.block, LoopKind::BlockY);
    s.bind(rows.block, LoopKind::BlockX);
    bind_warps(s, rows, cols);
    for (Loop u : {rows.tile, cols.tile, half}) s.unroll(u);
    s.vectorize(pair);
    return rows.block;
  }

  // Writes the accumulators with the whole reduction inside, at loop `place` of `host`. `first` is
  // the number of axes of `acc` before those of the sum.
  void accumulate(StageRef acc, int first, StageRef host, Loop place) {
    const Axes a = axes_of_sum(acc, first);
    const Cut rows = cut_rows(acc, a, false), cols = cut_cols(acc, a, false);
    auto [k_step, k] = acc.split(acc.reduce_axis(0), shape_.mma_k());
    auto [k_tile, step] = acc.split(k_step, knobs_.tile_k);
    std::vector<Loop> order = a.outer;
    order.insert(order.end(),
                 {k_tile, rows.warp, cols.warp, step, rows.tile, cols.tile, rows.in, cols.in, k});
    acc.reorder(order);
    bind_warps(acc, rows, cols);
    for (Loop u : {step, rows.tile, cols.tile}) acc.unroll(u);
    acc.tensorize(rows.in, "mma");
    lay_out(acc, mma::accumulator(first + shape_.row_axis(), first + shape_.col_axis()));
    acc.compute_at(host, place);
    for (size_t o = 0; o < 2; ++o)
      schedule_operand(shape_, knobs_, o, operands_[o], acc, k_tile, step);
  }

  TemplateBuilder& t_;
  const StageGroup& g_;
  const TensorCoreShape& shape_;
  const TensorCoreKnobs& knobs_;
  std::vector<TensorCoreOperand> operands_;  // the operand of the rows, that of the columns
};

}  // namespace

void tensor_core_whole(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
                       const TensorCoreKnobs& knobs) {
  Recipe(t, g, shape, knobs).whole();
}

void tensor_core_parts(TemplateBuilder& t, const StageGroup& g, const TensorCoreShape& shape,
                       const TensorCoreKnobs& knobs) {
  Recipe(t, g, shape, knobs).parts();
}

}  // namespace heddle::meta
