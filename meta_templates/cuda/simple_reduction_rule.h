// Whether a simple reduction is cut into parts, and how long those are: rules apart from the recipe
// (simple_reduction.cpp).
#pragma once

#include <vector>

#include "cuda/common.h"

namespace heddle::meta {

/// What is known of a reduction before any knob.
struct GpuReductionProblem {
  enum class Shape : uint8_t {
    Rows,     ///< a contiguous axis is reduced
    Columns,  ///< the result runs along what is contiguous
    Points    ///< neither, or the order of the reduction must be kept
  };
  Shape shape = Shape::Points;
  int axis = 0;            ///< that lanes (rows) or threadIdx.y (columns) go along
  int cut_axis = 0;        ///< that is cut into parts
  int64_t extent = 1;      ///< of `axis`
  int64_t cut_extent = 1;  ///< of `cut_axis`
  int64_t columns = 1;     ///< extent of the result's last axis
  int64_t lanes = 1;       ///< of a 16-byte access
  int64_t results = 1;
  int64_t value_bytes = 4;  ///< of a result, all its components
  double bytes = 0;         ///< read and written
  bool commutative = true;
  bool heavy = false;  ///< the result is a tuple: an index beside each element
  Gpu gpu;

  bool cuts_row() const { return cut_axis == axis; }
  NamedFeatures features() const;
};

/// Of reduction `stage`.
GpuReductionProblem reduction_problem(const ComputeDag& dag, int stage, const Gpu& gpu);

/// Lengths of parts to choose from, ascending; none where no cut is sensible.
std::vector<int64_t> part_lengths(const GpuReductionProblem& p);
/// Defaults of split_reduction and part_length, where there are such lengths.
Choice split_reduction_rule(const GpuReductionProblem& p);

// ---- A reduction to one value: blocks leave parts, and a block has a thread for each. ----

/// Lengths that make whole warps of parts, longest first; none where there are too few elements.
std::vector<int64_t> one_value_lengths(const GpuReductionProblem& p);
/// Whether parts of the shortest length are rows.
bool one_value_by_rows(const GpuReductionProblem& p);
/// The default of part_length.
Choice one_value_rule(const GpuReductionProblem& p);

/// The end of a reduction to one value.
struct OneLaunchProblem {
  int64_t parts = 1;
  int64_t threads = 1;  ///< of a block
  NamedFeatures features() const;
};
/// The default of one_launch: the last block to finish combines the parts.
Choice one_launch_rule(const OneLaunchProblem& p);

}  // namespace heddle::meta
