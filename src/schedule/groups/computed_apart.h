// How much of a stage a part of its reader computes, where the stage is computed within the reader.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// The elements of stage `s` that a row of `reader` computes for each that it reads, at most: it
/// computes the box around them.
///
///   y(i, j) = s(i, j) + s(i + 1, j)          1: two rows are read, and computed
///   y(i, j) = s(i, j) + s(n - 1 - i, j)      n / 2: all rows between the two
///   y(i, j) = s(p(i), j)                     infinity: `p` is data, and nothing bounds what is computed
double computed_per_read(const ComputeDag& dag, int s, int reader);

}  // namespace heddle
