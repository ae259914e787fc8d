// The allowed difference from the reference for each element of a task's outputs.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::measuring {

struct OutputBounds {
  std::vector<NDArray>
      allowed;  ///< f32, one for each output of the DAG; empty where none were computed
  /// Describes where the reference differs from a computation in f64; empty where it agrees.
  std::string problem;
};

/// Computes the outputs in f64 with their error bounds (declare_error_bounds), on the CPU, from the
/// inputs among `arrays` (by argument), and compares the reference, `outputs`, with them. Returns
/// no bounds where errors are small relative to the largest result, or where the computation would
/// take too long.
OutputBounds bound_outputs(const TuneTask& task, std::span<const NDArray> arrays,
                           std::span<const NDArray> outputs);

/// The allowed difference, element by element, between `reference` (rounded to its type) and
/// another correct result, given the value in f64 and its error (undefined: exact). `wrong` counts
/// elements where the reference is farther from the value than that. The allowed difference
/// includes them.
NDArray allowed_difference(const NDArray& reference, const NDArray& value, const NDArray& error,
                           int64_t* wrong);

}  // namespace heddle::measuring
