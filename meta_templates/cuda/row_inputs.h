// Which inputs of a group of rows are read by several passes over a row.
#pragma once

#include <vector>

#include "cuda/common.h"

namespace heddle::meta {

/// The stages of a group whose loops it holds, and those that were inlined into them.
std::vector<int> row_members(const StageGroup& g);

/// The stages outside of the group that several reads of its members go to, all of them at the
/// reader's own place in the row: element by element, rows to rows. `rank`: axes of the output
/// stage that tell rows apart.
std::vector<int> inputs_read_again(const ComputeDag& dag, const StageGroup& g, size_t rank);

}  // namespace heddle::meta
