// Gradients are compared with differences of the declaration itself, both by the interpreter in f64.
#pragma once

#include <functional>
#include <vector>

#include "heddle/autodiff/gradient.h"
#include "heddle/dag/compute_dag.h"
#include "ops/ops_testing.h"

namespace heddle {

using Declare = std::function<Tensor(const std::vector<Tensor>&)>;

struct Differences {
  double step = 1e-5, tolerance = 2e-7;
  std::vector<size_t> wrt = {};  ///< which inputs; all of floats where it is empty
};

/// The declaration's gradient for a random head, compared with central differences along random
/// directions of each input.
void expect_gradient(const Declare& declare, const std::vector<Input>& inputs,
                     const Differences& options = {});

/// The same for the gradient of a gradient: of the sum of the first gradient times a second random
/// head.
void expect_second_gradient(const Declare& declare, const std::vector<Input>& inputs,
                            const Differences& options = {});

/// That compiled and emulated results of every gradient are those of the interpreter.
void expect_same_every_way(const Declare& declare, const std::vector<Input>& inputs,
                           double tolerance = 1e-4);

/// An f64 input in [lo, hi].
Input real(const Dims& dims, uint64_t seed = 1, double lo = -2, double hi = 2);

}  // namespace heddle
