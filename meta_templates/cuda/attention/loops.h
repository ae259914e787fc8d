// What both recipes of attention share: the stages of the step online_softmax, how their rows are
// cut among warps, and the loops of element-wise stages and of values of rows.
#pragma once

#include <array>
#include <vector>

#include "cuda/attention/rule.h"
#include "cuda/products/row_loops.h"
#include "heddle/dag/attention.h"

namespace heddle::meta {

class AttentionLoops {
 protected:
  AttentionLoops(TemplateBuilder& t, const StageGroup& g, const Attention& chain, RowCut rows,
                 bool in_parts)
      : t_(t), g_(g), chain_(chain), cut_(rows), in_parts_(in_parts) {}

  /// The factors of the number of rows of a block.
  std::array<Param, 3> row_factors() const {
    return {Param(cut_.unit_rows()), cut_.tiles, cut_.units};
  }

  /// Inlines the stages of the chain that no other stage replaces.
  void inline_chain();

  /// The dimension of the rows: after those of the batch, and the axis of parts.
  int row_dim() const { return static_cast<int>(chain_.batch.size()) + (in_parts_ ? 1 : 0); }
  std::vector<Loop> batch_of(StageRef s) const;
  static void append(std::vector<Loop>* to, const std::vector<Loop>& more) {
    to->insert(to->end(), more.begin(), more.end());
  }

  /// The layout of sums of rows and columns.
  LayoutDigits accumulators() const;
  /// Elements of an operand of a fragment in a register. They are floats of 16 bits.
  static constexpr int64_t kPack = 2;

  // ---- loops ----

  using Rows = RowLoops;
  Rows cut_rows(StageRef s, Loop axis) const { return meta::cut_rows(s, axis, cut_); }

  /// The loops of the stage that is computed last: each lane stores two columns, row = 8*i + lane /
  /// 4, column = 2*(lane % 4) + j. Returns the loop over blocks.
  Loop block_loops(StageRef s) const;
  /// The loops of an element-wise stage of rows and keys.
  void elements(StageRef s, const LayoutDigits& layout) const;
  /// The loops of a stage with one value for each row, perhaps for each tile too. It is reduced
  /// over a loop of its own or along that of the tiles.
  void row_values(StageRef s) const;
  /// The loops of the sums of powers that each lane keeps.
  void partial_loops(StageRef s) const;

  TemplateBuilder& t_;
  const StageGroup& g_;
  const Attention& chain_;

 private:
  static void row_nest(StageRef s, const std::vector<Loop>& order, const Rows& r);

  const RowCut cut_;
  const bool in_parts_;
};

}  // namespace heddle::meta
