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
  // An input of i64: the rows of the first output at which its points are stored, of `rows` of them
  // (StageRef::scatter_rows). Undefined where they are stored in order.
  Tensor places = {};
  int64_t rows = 0;
  /// Stores the rows there, where the program has places.
  void store_rows(Schedule& schedule) const;
};

/// A declaration of a random family (contraction, convolution, reduction, normalisation, movement,
/// element-wise chain, or a composition), of odd small shapes.
RandomProgram random_program(Rng& rng);

/// Inputs with values that keep every operation well behaved.
std::vector<NDArray> random_inputs(const RandomProgram& p, uint64_t seed);

/// "" when `got` agrees with `want`, else the first difference.
std::string compare(const NDArray& want, const NDArray& got, int64_t reduce_length);

}  // namespace heddle::selftest
