// Random declarations, each from one seed that reproduces it, their inputs, and when results agree.
#pragma once

#include <string>
#include <vector>

#include "heddle/heddle.h"
#include "heddle/support/rng.h"

namespace heddle::selftest {

struct RandomProgram {
  std::string text;  // what was drawn, for people
  std::vector<Tensor> inputs, outputs;
  std::vector<Tensor> args() const;
  int64_t reduce_length = 1;  // the longest chain of additions: what tolerance depends on
  bool allow_tf32 = false;    // an option of its schedule
};

/// A declaration of a random family (contraction, convolution, reduction, normalisation, movement,
/// element-wise chain, or a composition), of odd small shapes.
RandomProgram random_program(Rng& rng);

/// Inputs with values that keep every operation well behaved.
std::vector<NDArray> random_inputs(const RandomProgram& p, uint64_t seed);

/// "" when `got` agrees with `want`, else the first difference.
std::string compare(const NDArray& want, const NDArray& got, int64_t reduce_length);

}  // namespace heddle::selftest
