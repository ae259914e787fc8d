// The rules that decide whether a simple reduction is cut into parts, and the length of the parts.
// The recipe is in simple_reduction.cpp.
#pragma once

#include <vector>

#include "cuda/common.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta {

/// The facts about a reduction that do not depend on knobs.
struct GpuReductionProblem {
  enum class Shape : uint8_t {
    Rows,     ///< axes of which one is contiguous are reduced
    Columns,  ///< the result is contiguous along the contiguous axis of the operand
    Points    ///< neither, or the order of the reduction must be kept
  };
  Shape shape = Shape::Points;
  /// The reduce axes, taken as one, of the lanes (rows) or of threadIdx.y (columns), and those that
  /// are cut into parts.
  std::vector<int> axes{0}, cut_axes{0};
  int64_t extent = 1;      ///< product of the extents of `axes`
  int64_t cut_extent = 1;  ///< product of the extents of `cut_axes`
  int64_t columns = 1;     ///< extent of the result's last axis
  int64_t lanes = 1;       ///< elements of a 16-byte access
  int64_t results = 1;
  int64_t value_bytes = 4;  ///< bytes of a result with all its components
  double bytes = 0;         ///< bytes read and written
  bool commutative = true;
  bool heavy = false;    ///< the result is a tuple: an index beside each element
  bool product = false;  ///< of short elements, with a vector that all results share
  Gpu gpu;
  GpuConstants constants = {};  ///< by which the rule judges

  bool cuts_row() const { return cut_axes == axes; }
  NamedFeatures features() const;
};

/// Analyses reduction `stage`.
GpuReductionProblem reduction_problem(const ComputeDag& dag, int stage, const Gpu& gpu,
                                      const GpuConstants& constants);

/// The possible lengths of parts, ascending. Empty where no cut is sensible.
std::vector<int64_t> part_lengths(const GpuReductionProblem& p);
/// The defaults of split_reduction and part_length, where there are possible lengths.
Choice split_reduction_rule(const GpuReductionProblem& p);

// ---- A reduction to one value: blocks leave parts, and a block has a thread for each. ----

/// The lengths that make whole warps of parts, longest first. Empty where there are too few
/// elements.
std::vector<int64_t> one_value_lengths(const GpuReductionProblem& p);
/// Whether parts of the shortest length are rows.
bool one_value_by_rows(const GpuReductionProblem& p);
/// The default of part_length.
Choice one_value_rule(const GpuReductionProblem& p);

/// The facts about the last step of a reduction to one value.
struct OneLaunchProblem {
  int64_t parts = 1;
  int64_t threads = 1;  ///< threads of a block
  NamedFeatures features() const;
};
/// The default of one_launch. With it the last block to finish combines the parts.
Choice one_launch_rule(const OneLaunchProblem& p);

}  // namespace heddle::meta
