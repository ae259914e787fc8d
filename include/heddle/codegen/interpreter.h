// The oracle: slow, plain evaluation of declarations and of the loop IR at any stage of lowering.
#pragma once

#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/ir/stmt.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

/// Evaluates `outputs` element by element from their declarations. `inputs` pairs each placeholder
/// with its contents; constants that are left out have their own. Reductions run in declaration
/// order; f16/bf16 round after every operation.
struct TensorValue {
  Tensor tensor;
  NDArray value;
};
std::vector<NDArray> interpret(const std::vector<Tensor>& outputs,
                               const std::vector<TensorValue>& inputs);

/// Runs a lowered function (multi-dimensional or flat indices, scalar or vector expressions, after
/// any pass) on `args`. Checks every access against the buffer's extents and every read of a local
/// or temporary against "was it ever written"; a violation throws an internal Error naming the
/// buffer, the indices and the statement. Parallel loops run in order.
void interpret(const LoweredFunction& function, const std::vector<NDArray>& args);

}  // namespace heddle
