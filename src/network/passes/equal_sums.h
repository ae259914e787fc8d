// Sums of columns that do not wait for each other, and what is computed of them.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle::network {

/// Whether `s` is a sum with few results whose elements do not lie side by side in something that it reads.
bool sums_columns(const ComputeDag& dag, int s);

/// The first stage behind `sum`, a sum of few columns, that reads another such sum of the same size too, where
/// neither depends on the other; else -1. On a GPU both share their launches if neither computes that stage:
///
///   d[c] = sum of v - k;  e[c] = sum of (v - k)^2;  the variance e[c] - d[c]^2 / N
int behind_equal_sums(const ComputeDag& dag, int sum);

}  // namespace heddle::network
