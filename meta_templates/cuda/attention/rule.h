// The rule that cuts attention into tiles of rows and keys. The recipe is in recipe.h.
#pragma once

#include "cuda/common.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta {

/// Rows of one mma.sync, and the unit of all other extents.
inline constexpr int64_t kAttentionUnit = 16;

/// The facts about an attention and the GPU that the rule uses.
struct AttentionProblem {
  int64_t rows = 1, keys = 1, batches = 1;
  int64_t depth = 1, cols = 1;  ///< elements of a head: of queries and keys; of values
  bool causal = false;          ///< whether rows need only some of the first keys
  bool masked = false;          ///< whether scores read a mask from memory
  int64_t reach = 1;            ///< the most keys that a row attends to
  bool warp_groups = false;     ///< whether warp groups and TMA can compute it
  Gpu gpu;
  GpuConstants constants = {};  ///< by which the rule judges
  NamedFeatures features() const;
  int64_t padded_depth() const;
  int64_t padded_cols() const;
};

/// The rows of a warp in tiles of 16, the warps of a block, the keys of a tile, the tiles of keys
/// in flight, whether the queries stay in registers, and the number of parts of the keys.
struct AttentionTile {
  int64_t row_tiles = 1, row_warps = 4, keys = 64, stages = 2;
  bool resident = true;
  int64_t parts = 1;
  int64_t rows() const { return kAttentionUnit * row_tiles * row_warps; }
};

/// The approximate number of 32-bit registers that a lane needs, and the bytes of shared memory of
/// a block.
int64_t attention_registers(const AttentionProblem& p, const AttentionTile& t);
int64_t attention_bytes(const AttentionProblem& p, const AttentionTile& t);

/// The numbers of parts to choose from.
inline const std::vector<int64_t> kAttentionParts = {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64};
/// Whether none of `parts` parts of whole tiles of `keys` keys is empty.
bool attention_parts_have_keys(const AttentionProblem& p, int64_t keys, int64_t parts);
/// Whether cutting the keys into parts can gain: for few rows and many keys, without a mask that
/// leaves out keys.
bool attention_in_parts(const AttentionProblem& p);

/// The tile of a block of warp groups: 64 rows each, the keys of a tile, tiles in flight.
struct AttentionGroupTile {
  int64_t groups = 2, keys = 128, stages = 2;
  int64_t rows() const { return 64 * groups; }
};

/// The approximate number of registers of a thread that multiplies, the number that it may have,
/// and the bytes of shared memory of a block.
int64_t attention_registers(const AttentionProblem& p, const AttentionGroupTile& t);
int64_t attention_registers_left(const AttentionGroupTile& t);
int64_t attention_bytes(const AttentionProblem& p, const AttentionGroupTile& t);

/// Whether there are two tiles of keys for some row, and each box has keys.
bool attention_has_tiles(const AttentionProblem& p, const AttentionGroupTile& t);

/// The tile for warp groups. It has no keys where none fits.
AttentionGroupTile attention_group_tile(const AttentionProblem& p);

/// Defaults of row_tiles, row_warps, keys, stages, resident, of form and parts where parts are of
/// use, and of unit, groups, group_keys and group_stages for warp groups.
Choice attention_rule(const AttentionProblem& p);

}  // namespace heddle::meta
