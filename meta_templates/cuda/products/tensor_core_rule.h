// The rule for products on matrix units. It chooses the tile of a block, the steps of its
// reduction, and the number of parts. The recipe is in tensor_core_recipe.h.
#pragma once

#include <array>
#include <vector>

#include "cuda/common.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta {

/// Rows and columns of one mma.sync.

/// The facts about a product of matrices, the GPU, and the operands that may be copied first.
struct TensorCoreProblem {
  int64_t rows = 1, cols = 1, depth = 1, batch = 1;
  int64_t pack = 2;  ///< operands in a register of 32 bits
  /// The layout in memory of an operand.
  struct Operand {
    bool copied = false;    ///< whether channels_last would copy it
    bool constant = false;  ///< whether such a copy is made once and not at each call
    bool by_elements =
        false;  ///< whether its tiles are copied by single elements, without cp.async
    bool along_depth = false;    ///< whether its elements are contiguous along the depth
    bool short_vectors = false;  ///< whether cp.async copies less than 16 bytes of it at once
    /// Whether channels_last would gain: its copy is loaded by vectors, and has no more elements than products read.
    bool copy_helps = true;
    /// Whether its rows in memory begin within sectors of the second cache (32 bytes).
    bool splits_sectors = false;
  };
  std::array<Operand, 2> operands;  ///< operand of the rows; operand of the columns
  /// Whether the column operand is contiguous along the columns.
  bool cols_lie_across = false;
  /// Whether the product is the transposed one of what is declared: rows of results in memory run along its
  /// rows.
  bool exchanged = false;
  /// Bytes of an element of the results where lanes can store 16 bytes of them at once, and TMA boxes; else 0.
  int64_t boxed_bytes = 0;
  /// Whether several axes of the results are the rows. Sums wait in shared memory then, and lanes store results.
  bool viewed = false;
  /// Whether warp groups add up each tile of the depth in registers of its own: 8-bit
  /// floats, and tf32 of factors that the declaration rounds.
  bool partial_sums = false;
  /// Whether exp, erf, a division or the like follows the sums.
  bool slow_results = false;
  Gpu gpu;
  GpuConstants constants = {};  ///< by which the rules judge

  /// The number of steps of the depth in one mma.
  int64_t mma_k() const { return mma::depth(pack); }
  bool may_copy() const { return operands[0].copied || operands[1].copied; }
  NamedFeatures features() const;
};

/// The tile of a block, in tiles of one mma, and the number of parts of the depth.
struct TensorCoreTile {
  int64_t row_tiles = 1, row_warps = 1, col_tiles = 1, col_warps = 1, parts = 1;
  int64_t rows() const { return mma::kRows * row_tiles * row_warps; }
  int64_t cols() const { return mma::kCols * col_tiles * col_warps; }
  int64_t warps() const { return row_warps * col_warps; }
};

/// Registers that a thread needs for its part of tile `t`: accumulators, operands, and others.
int64_t registers_of(const TensorCoreTile& t);

/// Bytes of shared memory for the operands of `k` steps of the reduction.
int64_t tile_bytes(int64_t rows, int64_t cols, int64_t k, int64_t pack);

/// Cycles of the whole product with tile `t`.
double tensor_core_cycles(const TensorCoreProblem& p, const TensorCoreTile& t);

/// Whether the reduction may be cut into parts.
bool may_split_depth(const TensorCoreProblem& p);
/// The possible numbers of steps of the depth in a part, longest first, for two parts or more. Not
/// empty where may_split_depth.
std::vector<int64_t> part_lengths(const TensorCoreProblem& p);
/// The number of tiles of mma_k in the depth of a block, which reduces the whole depth (`k_part` 0)
/// or a part of `k_part` steps.
int64_t mma_steps(const TensorCoreProblem& p, int64_t k_part);

/// The entries of `values` that are less than twice the value that `extent` needs.
std::vector<int64_t> useful(int64_t extent, std::vector<int64_t> values);

/// The defaults of row_tiles, row_warps, col_tiles, col_warps, reduction, k_part (where the depth
/// may be cut), tile_k, stages, and channels_last (where operands may be copied).
Choice tensor_core_rule(const TensorCoreProblem& p);

}  // namespace heddle::meta
