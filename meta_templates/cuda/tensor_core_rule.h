// Which tile of a product a block takes on the tensor cores, how deep the steps of its reduction
// are, and in how many parts that is cut: one rule, apart from the recipe (tensor_core_recipe.h).
#pragma once

#include <array>
#include <vector>

#include "cuda/common.h"

namespace heddle::meta {

/// Rows and columns of one mma.sync.
inline constexpr int64_t kMmaRows = 16, kMmaCols = 8;

/// What the rule knows of a product of matrices, of the GPU, and of the operands that may be copied
/// first.
struct TensorCoreProblem {
  int64_t rows = 1, cols = 1, depth = 1, batch = 1;
  int64_t pack = 2;  ///< operands in a register of 32 bits
  /// An operand as it lies in memory.
  struct Operand {
    bool copied = false;       ///< channels_last would copy it
    bool constant = false;     ///< such a copy is made once, not at each call
    bool by_elements = false;  ///< its tiles come by single elements: cp.async cannot copy them
    bool along_depth = false;  ///< its elements lie side by side along the depth
  };
  std::array<Operand, 2> operands;  ///< of the rows, of the columns
  /// Whether the column operand of a plain product lies side by side along the columns.
  bool cols_lie_across = false;
  Gpu gpu;

  /// Steps of the depth that one mma takes.
  int64_t mma_k() const { return 8 * pack; }
  bool may_copy() const { return operands[0].copied || operands[1].copied; }
  NamedFeatures features() const;
};

/// What a block computes, in tiles of one mma, and in how many parts the depth is cut.
struct TensorCoreTile {
  int64_t row_tiles = 1, row_warps = 1, col_tiles = 1, col_warps = 1, parts = 1;
  int64_t rows() const { return kMmaRows * row_tiles * row_warps; }
  int64_t cols() const { return kMmaCols * col_tiles * col_warps; }
  int64_t warps() const { return row_warps * col_warps; }
};

/// Bytes of shared memory that the operands of `k` steps of the reduction take.
int64_t tile_bytes(int64_t rows, int64_t cols, int64_t k, int64_t pack);

/// Cycles of the whole product with tile `t`.
double tensor_core_cycles(const TensorCoreProblem& p, const TensorCoreTile& t);

/// Whether the reduction may be cut into parts.
bool may_split_depth(const TensorCoreProblem& p);
/// Steps of the depth in a part, longest first, for two parts and more; some where may_split_depth.
std::vector<int64_t> part_lengths(const TensorCoreProblem& p);
/// Tiles of mma_k in the depth of a block that reduces all (`k_part` 0) or a part of so many steps.
int64_t mma_steps(const TensorCoreProblem& p, int64_t k_part);

/// Those of `values` that are less than twice what `extent` needs.
std::vector<int64_t> useful(int64_t extent, std::vector<int64_t> values);

/// Defaults of row_tiles, row_warps, col_tiles, col_warps, reduction, k_part (where the depth may
/// be cut), tile_k, stages, and channels_last (where operands may be copied).
Choice tensor_core_rule(const TensorCoreProblem& p);

}  // namespace heddle::meta
