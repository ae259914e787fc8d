// What both recipes of a computed matrix share: how its rows are cut among warps, the padded products,
// and the loops of elements and of the stage that is computed last.
#pragma once

#include <vector>

#include "cuda/products/computed_matrix.h"
#include "cuda/products/row_loops.h"

namespace heddle::meta {

class ComputedMatrixLoops {
 protected:
  ComputedMatrixLoops(TemplateBuilder& t, const StageGroup& g, const ComputedMatrix& m, RowCut cut)
      : t_(t), g_(g), m_(m), cut_(cut) {}

  /// Elements of an operand of a fragment in a register.
  static constexpr int64_t kPack = 2;
  static constexpr TailStrategy kWhole = TailStrategy::PredicateStores;

  struct Made {
    StageRef sum, rows, keys;  ///< a product over full tiles, and the tiles of its operands
  };
  /// The products over tiles of `keys` keys; the stages between are inlined.
  std::vector<Made> pad_products(Param keys, Param key_units) const;
  StageRef::Padding rows_of(StageRef s, int axis) const {
    return {s.axis(axis), cut_.unit_rows(), cut_.tiles, cut_.units};
  }

  using Rows = RowLoops;
  Rows cut_rows(StageRef s, int axis) const { return meta::cut_rows(s, s.axis(axis), cut_); }
  static std::vector<Loop> without(StageRef s, int a, int b);
  static void order(StageRef s, std::vector<Loop> first, const std::vector<Loop>& then) {
    first.insert(first.end(), then.begin(), then.end());
    s.reorder(first);
  }
  static void bind_blocks(StageRef s, const std::vector<Loop>& batch, Loop block);
  /// The rows and columns of a tile that accumulators hold: two columns a lane, in rows lane / 4 of
  /// each half.
  static void bind_lanes(StageRef s, Loop lane_row, Loop lane_col) {
    s.bind(s.fuse(lane_row, lane_col), LoopKind::ThreadX);
  }

  /// The loops of the output stage, which has columns. Returns the loop over blocks.
  Loop columns_of_blocks(StageRef s) const;
  /// The batch of the sum, and the reduce axes besides the keys.
  std::vector<Loop> batch_of_sum(StageRef s) const;
  /// The loops of the matrix.
  void elements(StageRef s, const LayoutDigits& layout) const;

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputedMatrix& m_;

 private:
  const RowCut cut_;
};

}  // namespace heddle::meta
