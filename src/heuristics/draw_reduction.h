// Reductions of rows, of columns and of everything, to learn from.
#pragma once

#include "heddle/heuristics/heuristic.h"

namespace heddle {

/// A sum, a maximum or a sum of squares, of a matrix of at most so many elements. Ids of sums are
/// subjects of the command line.
DrawnProblem draw_reduction(Rng& rng, DataType dtype, double most_elements);

enum class ReducedAxis : std::uint8_t { Rows, Columns, All };
/// The same along one axis.
DrawnProblem draw_reduction(Rng& rng, DataType dtype, double most_elements, ReducedAxis axis);

}  // namespace heddle
