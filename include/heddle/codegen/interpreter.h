// The oracle of the tests: a slow, plain evaluation of declarations and of the loop IR after any
// pass of lowering.
#pragma once

#include <vector>

#include "heddle/dsl/tensor.h"
#include "heddle/ir/stmt.h"
#include "heddle/runtime/ndarray.h"

namespace heddle {

/// A tensor and its contents.
struct TensorValue {
  Tensor tensor;
  NDArray value;
};
/// Evaluates `outputs` element by element from their declarations. `inputs` pairs each placeholder
/// with its contents. Constants that are left out use their own values. Reductions run in the order
/// of the declaration. f16 and bf16 are rounded after every operation. Throws a User error for a
/// placeholder without a value.
std::vector<NDArray> interpret(const std::vector<Tensor>& outputs,
                               const std::vector<TensorValue>& inputs);

/// Runs a lowered function (multi-dimensional or flat indices, scalar or vector expressions, after
/// any pass) on `args`. Checks that every access is within the extents of the buffer, and that
/// every element of a local or temporary was written before it is read. A violation throws an
/// internal Error that names the buffer, the indices and the statement. Parallel loops run in
/// order.
void interpret(const LoweredFunction& function, const std::vector<NDArray>& args);

}  // namespace heddle
