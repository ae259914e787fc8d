// A computed matrix by warp groups (wgmma) from tiles that TMA loads, on Hopper.
#pragma once

#include "cuda/products/computed_matrix.h"

namespace heddle::meta {

/// Warp groups of a block, keys of a tile, and tiles of keys that are loaded ahead.
struct ComputedMatrixGroupTile {
  int64_t groups = 1, keys = 64, stages = 2;
  int64_t rows() const { return wgmma::kRows * groups; }
};

/// The tile of warp groups; no keys where none fits.
ComputedMatrixGroupTile computed_matrix_group_tile(const ComputedMatrixProblem& p);

/// The knobs of the recipe.
struct ComputedMatrixGroupKnobs {
  Param groups, key_units, stages;
};

/// The stages that TMA loads, where it and wgmma can compute the sum: operands in memory whose lines are
/// whole boxes along memory. Otherwise empty.
std::vector<int> computed_matrix_group_operands(const ComputeDag& dag, const StageGroup& g,
                                                const ComputedMatrix& m, const Gpu& gpu);

/// Asks for the knobs, and rejects configs that do not fit a block, where `unit` is 1.
ComputedMatrixGroupKnobs ask_computed_matrix_group(TemplateBuilder& t,
                                                   const ComputedMatrixProblem& p, Param unit,
                                                   const Choice& choice);

/// Writes the loops.
void computed_matrix_group_recipe(TemplateBuilder& t, const StageGroup& g, const ComputedMatrix& m,
                                  const ComputedMatrixGroupKnobs& knobs);

}  // namespace heddle::meta
