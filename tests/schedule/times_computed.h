// How often a schedule computes the elements of each stage.
#pragma once

#include <vector>

#include "heddle/schedule/schedule.h"

namespace heddle {

/// For each stage of the declaration of `schedule`, how often one of its elements is computed, on
/// average; 1 where it is stored once, 0 for an argument and for a stage that nothing needs.
///
///   inlined:  for each evaluation of a reader, once for each of its different reads; once for all
///             points of an unrolled or vectorised tile that read the same element
///   at a loop of a reader:  for each iteration, once for each element that the iteration needs
///
///     for block of rows { for block of columns { A'[..]  C[..] += A'[..] * B[..] } }
///     A' is computed once for each block of columns
///
/// Iterations beyond the end of an axis are not counted. Elements that an iteration needs are taken
/// to be a box. A stage that steps of the schedule compute in another form (split sums, products
/// of matrices, online softmax) counts as that form does.
std::vector<double> times_computed(const Schedule& schedule);

}  // namespace heddle
