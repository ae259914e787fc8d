// Programs of rows: stages that each block of a GPU runs on rows of its own, one after the other.
#pragma once

#include <functional>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/target/target.h"

namespace heddle {

/// The stages before `last` that a block may compute for a row (the first axis) of it, where this takes less time than
/// a kernel for each; else none. Ascending.
///
///   a[r, i] = f(x[r, ..])          shared memory; the threads of the block take elements,
///   b[r, i] = g(a[r, p(i)])        and wait for each other between stages
///   last[r, i] = h(b[r, q(i)])
///
/// Networks that sort or merge, and scans in blocks, are such stages: each reads the one before it at other elements of
/// its row, so that none can be inlined, and they are many. `is_free` tells of stages of no other group.
std::vector<int> row_program(const ComputeDag& dag, const Gpu& gpu, int last,
                             const std::function<bool(int)>& is_free);

}  // namespace heddle
