// Which tile of a contraction a block of threads takes without tensor cores, how deep the steps of
// its reduction are, and in how many parts that is cut: one rule, apart from the recipe
// (complex_reduction_recipe.cpp).
#pragma once

#include <vector>

#include "cuda/common.h"

namespace heddle::meta {

/// Columns side by side in a thread: 16 bytes of f32.
inline constexpr int64_t kColumnLanes = 4;

/// What the rule knows of a contraction and of the GPU.
struct SimtProblem {
  int64_t rows = 1, cols = 1;
  int64_t depth = 1;          ///< points of all reduce axes
  int64_t others = 1;         ///< such products: batch and the like
  int64_t step_depth = 1;     ///< extent of the reduce axis that is cut into steps
  int64_t operand_bytes = 4;  ///< of an element of the columns' operand
  bool commutative = true;    ///< the reduction may be cut into parts
  Gpu gpu;

  NamedFeatures features() const;
};

/// What a block of threads computes, by thread: rows x columns. A thread's rows lie in groups of
/// `group_rows`, its columns in groups of kColumnLanes, that are threads * group apart.
struct SimtTile {
  int64_t group_rows = 4, row_groups = 2, row_threads = 16;
  int64_t col_threads = 16, col_groups = 2;
  int64_t rows() const { return group_rows * row_groups * row_threads; }
  int64_t cols() const { return kColumnLanes * col_groups * col_threads; }
  int64_t threads() const { return row_threads * col_threads; }
  int64_t accumulators() const { return group_rows * row_groups * kColumnLanes * col_groups; }
};

/// Cycles that an SM spends on one step of the reduction of one tile.
double simt_step_cycles(const SimtTile& t, const Gpu& gpu);
/// Cycles of the whole with tile `t` and the depth in `parts`: as long as the SM with the most
/// blocks takes.
double simt_cycles(const SimtProblem& p, const SimtTile& t, int64_t parts);

/// Whether `stages` tiles of `rows` + `cols` and `k` steps fit the shared memory of a block.
bool simt_tiles_fit(const SimtProblem& p, int64_t rows, int64_t cols, int64_t k, int64_t stages);

/// The steps of the reduction that may be in shared memory at a time.
std::vector<int64_t> simt_steps(const SimtProblem& p);
/// Whether the reduction may be cut into parts, and how long those may be, longest first.
bool may_split_depth(const SimtProblem& p);
std::vector<int64_t> part_lengths(const SimtProblem& p);

/// Defaults of group_rows, row_groups, row_threads, col_threads, col_groups, tile_k, stages,
/// reduction, and k_part (where the depth may be cut).
Choice simt_rule(const SimtProblem& p);

}  // namespace heddle::meta
