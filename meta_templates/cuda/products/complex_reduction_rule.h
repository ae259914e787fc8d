// The rule for contractions without matrix units. It chooses the tile of a block, the steps of its
// reduction, and the number of parts. The recipe is in complex_reduction_recipe.cpp.
#pragma once

#include <vector>

#include "cuda/common.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta {

/// Number of adjacent columns of a thread: 16 bytes of f32.
inline constexpr int64_t kColumnLanes = 4;

/// The facts about a contraction and the GPU that the rule uses.
struct SimtProblem {
  int64_t rows = 1, cols = 1;
  int64_t depth = 1;          ///< product of the extents of all reduce axes
  int64_t others = 1;         ///< number of such products (the batch)
  int64_t step_depth = 1;     ///< extent of the reduce axis that is cut into steps
  int64_t operand_bytes = 4;  ///< bytes of an element of the operand of the columns
  bool commutative = true;    ///< the reduction may be cut into parts
  bool pads = false;          ///< tiles and steps need not divide the sizes: zeros fill them up
  Gpu gpu;
  GpuConstants constants = {};  ///< by which the rule judges

  NamedFeatures features() const;
};

/// The tile of a block of threads, rows x columns for each thread. A thread's rows are in groups of
/// `group_rows` and its columns in groups of kColumnLanes. The groups are threads * group apart.
struct SimtTile {
  int64_t group_rows = 4, row_groups = 2, row_threads = 16;
  int64_t col_threads = 16, col_groups = 2;
  int64_t rows() const { return group_rows * row_groups * row_threads; }
  int64_t cols() const { return kColumnLanes * col_groups * col_threads; }
  int64_t threads() const { return row_threads * col_threads; }
  int64_t accumulators() const { return group_rows * row_groups * kColumnLanes * col_groups; }
};

/// Cycles of an SM for one step of the reduction of one tile.
double simt_step_cycles(const SimtProblem& p, const SimtTile& t);
/// Cycles of the whole product with tile `t` and the depth in `parts`. It is the time of the SM
/// with the most blocks.
double simt_cycles(const SimtProblem& p, const SimtTile& t, int64_t parts);

/// Whether `stages` tiles of `rows` + `cols` and `k` steps fit the shared memory of a block.
bool simt_tiles_fit(const SimtProblem& p, int64_t rows, int64_t cols, int64_t k, int64_t stages);

/// The numbers of steps of the reduction that may be in shared memory at a time.
std::vector<int64_t> simt_steps(const SimtProblem& p);
/// Whether the reduction may be cut into parts, and the possible lengths of parts, longest first.
bool may_split_depth(const SimtProblem& p);
std::vector<int64_t> part_lengths(const SimtProblem& p);

/// The defaults of group_rows, row_groups, row_threads, col_threads, col_groups, tile_k, stages,
/// reduction, and k_part (where the depth may be cut).
Choice simt_rule(const SimtProblem& p);

}  // namespace heddle::meta
