// The inputs of a group of rows that several passes over a row read.
#pragma once

#include <vector>

#include "cuda/common.h"

namespace heddle::meta {

/// The stages of a group that have loops of their own in it, and those that are inlined into them.
std::vector<int> row_members(const StageGroup& g);

/// The stages outside of the group that several of its members read at the reader's own place in
/// the row: element by element, rows to rows. `rank` is the number of axes of the output stage that
/// distinguish rows.
std::vector<int> inputs_read_again(const ComputeDag& dag, const StageGroup& g, size_t rank);

}  // namespace heddle::meta
