// The choice of the form of a product with one row: a register tile of packed weights, or a sum
// along each row of the weights.
#pragma once

#include "common/accesses.h"
#include "common/costs.h"

namespace heddle::meta::cpu {

/// Whether product `s` of a vector and a constant matrix is computed from a packed copy of the
/// matrix, in which vectors go across the rows. No vector is then summed up across its lanes, and
/// the copy is made once. This holds for a matrix that stays in L2, shared by the threads, and for
/// rows of few vectors. Any other matrix takes the time of reading it from memory in either form. A
/// matrix that is read through a transposition is packed at any size.
inline bool packs_once(const ComputeDag& dag, int s, const Target& target) {
  constexpr int64_t kFewVectors = 8;
  const Operation& op = dag.stage(s);
  if (op.axes().empty() || op.reduce_axes().size() != 1) return false;
  const Access* largest = largest_read(dag, s);
  if (!largest || !is_constant(dag, *largest)) return false;
  if (!dag.stage(largest->producer).is_placeholder() &&
      transposed_axis(dag, largest->producer) >= 0)
    return true;
  if (!contiguous_axis(*largest, op.reduce_axes())) return false;
  const int64_t row_bytes = op.reduce_axes()[0].extent() * largest->tensor.dtype().bytes();
  return bytes_of(largest->tensor) <= target.l2_bytes * target.cores ||
         row_bytes <= kFewVectors * target.vector_bytes;
}

}  // namespace heddle::meta::cpu
