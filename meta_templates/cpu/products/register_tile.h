// The tile of results that a contraction keeps in vector registers, and the rule for its size.
#pragma once

#include "cpu/products/contraction_problem.h"

namespace heddle::meta::cpu {

struct RegisterTile {
  int64_t rows = 1;
  int64_t vectors = 1;  ///< number of adjacent vectors of results
};

/// Whether a vector is a whole line of memory, as with AVX-512.
bool vectors_are_lines(const Target& target);

/// Whether there are registers for the accumulators, one row of the vector operand and one
/// broadcast. A multiply-add of 512 bits takes a broadcast that is used once directly from memory.
bool fits_registers(const Target& target, const RegisterTile& tile);

/// The share of the peak of multiply-adds that a tile can reach, edge tiles included. `rows` is the
/// number of rows of the result that tiles cover.
double tile_score(const ContractionProblem& p, int64_t rows, const RegisterTile& tile);

/// The tile with the best score among those of at most `most` accumulators.
RegisterTile best_register_tile(const ContractionProblem& p, int64_t most);

}  // namespace heddle::meta::cpu
