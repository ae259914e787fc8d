// Stages by cases (StageInfo::case_periods): transforms of small tiles, such as Winograd's. The loops
// that templates for CPUs and GPUs make of their axes.
//
// The axes are cut where the declaration cuts them (floordiv and floormod by constants), so that
// these quotients and remainders are loop variables of the nest.
#pragma once

#include <set>
#include <vector>

#include "common/loops.h"
#include "heddle/schedule/template.h"

namespace heddle::meta {

/// The case periods of a group's output stage and of the stages that are inlined into it element by
/// element.
std::vector<int64_t> case_periods_of(const ComputeDag& dag, const StageGroup& g);

/// Whether the output stage of `g` is one by cases: at the root, or attached to the tile of a reader.
bool is_by_cases(const ComputeDag& dag, const StageGroup& g);

/// The loops of a stage, by their use.
struct TransformLoops {
  std::vector<Loop> rows;   ///< outer loops
  std::vector<Loop> cases;  ///< of a tile, unrolled
  Loop chunk, vector;       ///< over vectors, and lanes of one; invalid without a vector axis
  /// The rows, then the loop over vectors.
  std::vector<Loop> outer() const;
};

/// Cuts the axes of the output stage of a group by cases.
class TileCases {
 public:
  TileCases(TemplateBuilder& t, const StageGroup& g, int64_t lanes);

  /// The loops of a stage at the root.
  TransformLoops cut();
  /// Those of a stage that is computed within the tile of its reader: every loop but that of the
  /// lanes is one of the cases, so that its results are in registers.
  TransformLoops cut_attached();
  /// Orders the loops: `outer`, then the unrolled cases and the lanes.
  void write_tile(const TransformLoops& l, const std::vector<Loop>& outer);
  /// Asks where the attached stage is computed: within the tile of its reader.
  void attach();

  StageRef stage() const { return s_; }
  /// The axis of the vectors: the last one without cases that is long enough; -1 where there is none.
  int vector_axis() const;

 private:
  void cut_vectors(Loop loop, TransformLoops& l);
  Loop cut_rows(Loop loop, int64_t size, TransformLoops& l);
  int64_t innermost_cut(size_t a) const;
  void inherited_cuts(int s, size_t a, std::set<int64_t>* out) const;

  TemplateBuilder& t_;
  const StageGroup& g_;
  const ComputeDag& dag_;
  const Operation& op_;
  StageRef s_;
  int64_t lanes_;
  std::vector<int64_t> periods_;
};

}  // namespace heddle::meta
