// How far each element of a task's outputs may be from the reference.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/runtime/ndarray.h"

namespace heddle::measuring {

struct OutputBounds {
  std::vector<NDArray> allowed;  ///< f32, one an output of the DAG; empty: none were computed
  /// Where the reference itself is not what a computation in f64 gives; empty when it is.
  std::string problem;
};

/// Computes the outputs in f64 with their error bounds (declare_error_bounds), on the CPU, from the
/// inputs among `arrays` (by argument), and compares the reference, `outputs`, with them. None
/// where errors are small beside the largest result anyhow, and where it would take too long.
OutputBounds bound_outputs(const TuneTask& task, std::span<const NDArray> arrays,
                           std::span<const NDArray> outputs);

/// How far `reference`, as its type has it, may be from another right answer, given the value in
/// f64 and its error (undefined: exact), element by element. `wrong` counts where the reference is
/// farther from the value than that; it is allowed for there.
NDArray allowed_difference(const NDArray& reference, const NDArray& value, const NDArray& error,
                           int64_t* wrong);

}  // namespace heddle::measuring
