// Random reductions of rows, of columns and of all elements for training.
#pragma once

#include "heddle/heuristics/heuristic.h"

namespace heddle::learning {

/// A sum, a maximum, the place of one, or a sum of squares of a matrix of limited size, or a reduction of a row group.
/// Most ids are subjects of the command line.
DrawnProblem draw_reduction(Rng& rng, DataType dtype, double most_elements);

enum class ReducedAxis : std::uint8_t { Rows, Columns, All };
/// The same along one axis.
DrawnProblem draw_reduction(Rng& rng, DataType dtype, double most_elements, ReducedAxis axis);
/// A group of rows with reductions: a softmax or a normalisation.
DrawnProblem draw_row_group(Rng& rng, DataType dtype, double most_elements);

}  // namespace heddle::learning
