// The loops that stages of a product by warp groups have in common: over blocks, warp groups, warps and lanes.
#pragma once

#include <optional>
#include <vector>

#include "cuda/products/product_loops.h"
#include "cuda/products/warp_group.h"

namespace heddle::meta {

class GroupLoops {
 protected:
  GroupLoops(TemplateBuilder& t, const TensorCoreShape& shape, const WarpGroupKnobs& knobs,
             bool pairs, bool by_tile)
      : t_(t), shape_(shape), knobs_(knobs), pairs_(pairs), by_tile_(by_tile) {}

  // The axes of a stage that has those of the sum.
  struct Axes {
    std::vector<Loop> outer;
    Loop rows, cols;
  };
  Axes axes_of_sum(StageRef s) const {
    return {outer_axes(s), s.axis(shape_.row_axis()), s.axis(shape_.col_axis())};
  }
  // The axes of the output stage, which are those of the declaration.
  Axes axes_of_output(StageRef s) const {
    if (!shape_.view()) return axes_of_sum(s);
    const ProductLoops p = taken_together(s, *shape_.view());
    return {p.batch, p.rows, p.cols};
  }

  std::vector<Loop> outer_axes(StageRef s) const {
    std::vector<Loop> out;
    if (shape_.view()) return out;  // takes_windows: no batch
    const ContractionShape& axes = shape_.axes();
    for (const auto* list : {&axes.batch, &axes.m_others, &axes.v_others}) {
      for (int i : *list) out.push_back(s.axis(i));
    }
    return out;
  }

  struct Rows {
    Loop group_rows, tile, warp, in;  // group_rows: 64*group_tiles rows each
  };
  Rows cut_rows(StageRef s, Loop all) const {
    const TailStrategy whole = TailStrategy::PredicateStores;
    auto [warps, in] = s.split(all, mma::kRows, whole);
    auto [tiles, warp] = s.split(warps, wgmma::kWarps, whole);
    if (by_tile_) {
      auto [tile, group] = s.split(tiles, knobs_.groups, whole);
      return {group, tile, warp, in};
    }
    auto [group_rows, tile] = s.split(tiles, knobs_.group_tiles, whole);
    return {group_rows, tile, warp, in};
  }

  // The loops over blocks, and those over the warp groups and columns of a block.
  struct Blocks {
    std::vector<Loop> loops;
    std::optional<Loop> neighbour;
    Loop group, col;
  };
  Blocks cut_blocks(StageRef s, const Axes& axes, Loop row_block, Loop group) const {
    const TailStrategy whole = TailStrategy::PredicateStores;
    Blocks b;
    auto [raster, row_of_raster] = s.split(row_block, knobs_.raster, whole);
    auto [col_block, col] = s.split(axes.cols, knobs_.group_cols, whole);
    b.loops = axes.outer;
    b.loops.insert(b.loops.end(), {raster, col_block});
    b.group = group;
    b.col = col;
    if (pairs_) {
      auto [row_pair, row_of_pair] = s.split(row_of_raster, 2, whole);
      b.loops.push_back(row_pair);
      b.neighbour = row_of_pair;
    } else {
      b.loops.push_back(row_of_raster);
    }
    return b;
  }
  void bind_turns(StageRef s, Loop block) const {
    for (const int alternates : {0, 1}) {
      for (const int streams : {0, 1}) {
        const LoopKind kind = LoopKind::persistent(streams == 1, alternates == 1);
        t_.when(knobs_.turns, alternates,
                [&] { t_.when(knobs_.waves, streams, [&] { s.bind(block, kind); }); });
      }
    }
  }
  // Returns the loop of a block.
  Loop bind_blocks(StageRef s, const Blocks& b, const std::vector<Loop>& inner) const {
    std::vector<Loop> order = b.loops;
    if (b.neighbour) order.push_back(*b.neighbour);
    order.insert(order.end(), inner.begin(), inner.end());
    s.reorder(order);
    const Loop block = s.fuse(b.loops);
    if (b.neighbour) s.bind(*b.neighbour, LoopKind::PairX);
    bind_turns(s, block);
    s.bind(b.group, LoopKind::ThreadZ);
    return b.neighbour ? *b.neighbour : block;
  }

  // The elements of a lane: two columns, row = 8*i + lane / 4, column = 2*(lane % 4) + j.
  struct Lanes {
    Loop col_tile, lane_col, pair, half, lane_row;
  };
  Lanes cut_lanes(StageRef s, const Rows& rows, Loop col) const {
    auto [col_tile, col_in] = s.split(col, 8, TailStrategy::PredicateStores);
    auto [lane_col, pair] = s.split(col_in, 2);
    auto [half, lane_row] = s.split(rows.in, 8);
    return {col_tile, lane_col, pair, half, lane_row};
  }
  void bind_lanes(StageRef s, const Rows& rows, const Lanes& l) const {
    s.bind(s.fuse(l.lane_row, l.lane_col), LoopKind::ThreadX);
    s.bind(rows.warp, LoopKind::ThreadY);
    for (Loop u : {rows.tile, l.col_tile, l.half}) s.unroll(u);
    shape_.is_exchanged() ? s.unroll(l.pair) : s.vectorize(l.pair);
  }

  TemplateBuilder& t_;
  const TensorCoreShape& shape_;
  const WarpGroupKnobs& knobs_;
  const bool pairs_, by_tile_;
};

}  // namespace heddle::meta
