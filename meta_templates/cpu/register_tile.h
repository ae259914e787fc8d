// The tile of results that a contraction keeps in vector registers: how large, by rule.
#pragma once

#include "cpu/contraction_problem.h"

namespace heddle::meta::cpu {

struct RegisterTile {
  int64_t rows = 1;
  int64_t vectors = 1;  ///< of results, side by side
};

/// Whether a vector is a whole line of memory, as with AVX-512.
bool vectors_are_lines(const Target& target);

/// Whether accumulators, one row of the vector operand and one broadcast have registers. A
/// multiply-add of 512 bits takes a broadcast that is used once from memory.
bool fits_registers(const Target& target, const RegisterTile& tile);

/// How well a tile keeps the multiply-adders busy, and how little of the edge tiles is lost: a
/// share of the peak. `rows`: of the result, that tiles may count on.
double tile_score(const ContractionProblem& p, int64_t rows, const RegisterTile& tile);

/// The tile of the best score of at most `most` accumulators.
RegisterTile best_register_tile(const ContractionProblem& p, int64_t most);

}  // namespace heddle::meta::cpu
