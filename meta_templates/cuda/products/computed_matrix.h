// Matrices of products that are reduced where they are computed (dag/computed_matrix.h): the tile of
// rows and keys, and the recipe.
#pragma once

#include "cuda/common.h"
#include "heddle/dag/computed_matrix.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta {

/// The unit of rows, keys, columns and depths: 16 rows of one mma.sync.
inline constexpr int64_t kMatrixUnit = 16;

/// The facts about a matrix and the GPU that the rule uses.
struct ComputedMatrixProblem {
  int64_t rows = 1, keys = 1, cols = 0, batches = 1;  ///< cols: of the result; 0: one for each row
  std::vector<int64_t> depths;                        ///< of the products
  bool warp_groups = false;                           ///< whether TMA can load the operands
  Gpu gpu;
  GpuConstants constants = {};  ///< by which the rule judges
  NamedFeatures features() const;
};

/// Tiles of 16 rows of a warp, warps of a block, units of 16 keys of a tile, tiles in flight, and
/// whether the operands of rows stay in registers.
struct ComputedMatrixTile {
  int64_t row_tiles = 1, row_warps = 4, key_units = 4, stages = 2;
  bool resident = true;
  int64_t rows() const { return kMatrixUnit * row_tiles * row_warps; }
  int64_t keys() const { return kMatrixUnit * key_units; }
};

/// The approximate number of 32-bit registers that a lane needs, and the bytes of shared memory of a
/// block.
int64_t computed_matrix_registers(const ComputedMatrixProblem& p, const ComputedMatrixTile& t);
int64_t computed_matrix_bytes(const ComputedMatrixProblem& p, const ComputedMatrixTile& t);

/// Defaults of row_tiles, row_warps, key_units, stages and resident.
Choice computed_matrix_rule(const ComputedMatrixProblem& p);

struct ComputedMatrixKnobs {
  Param row_tiles, row_warps, key_units, stages;
};

/// Writes the loops.
void computed_matrix_recipe(TemplateBuilder& t, const StageGroup& g, const ComputedMatrix& m,
                            const ComputedMatrixKnobs& knobs, bool resident);

}  // namespace heddle::meta
