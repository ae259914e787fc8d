// Indices with cases, such as those of padding by the nearest element, as cases of reads.
#pragma once

#include <vector>

#include "autodiff/derivative.h"

namespace heddle::autodiff {

/// Adds to `cases` the derivative of a read whose indices have min, max or select, as one for each
/// combination of their arms, under its conditions:
///
///   x(max(i - 2, 0))  ->  x(i - 2) where i - 2 >= 0, x(0) elsewhere
///
/// Indices of data, and those with more than a few cases, stay as they are.
void add_cases(const ReadDerivative& d, std::vector<ReadDerivative>* cases);

}  // namespace heddle::autodiff
