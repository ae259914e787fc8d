// Reductions of rows, of columns and of everything, to learn from.
#pragma once

#include "heddle/heuristics/heuristic.h"

namespace heddle {

/// A sum, a maximum or a sum of squares, of a matrix of at most so many elements, or one of a row
/// group. Ids of most are subjects of the command line.
DrawnProblem draw_reduction(Rng& rng, DataType dtype, double most_elements);

enum class ReducedAxis : std::uint8_t { Rows, Columns, All };
/// The same along one axis.
DrawnProblem draw_reduction(Rng& rng, DataType dtype, double most_elements, ReducedAxis axis);
/// Rows that are reduced and worked on: a softmax or a normalisation.
DrawnProblem draw_row_group(Rng& rng, DataType dtype, double most_elements);

}  // namespace heddle
