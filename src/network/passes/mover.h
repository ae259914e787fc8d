// Movers: stages that only change the place of elements (a transpose, a reshape, a slice, a copy).
#pragma once

#include <span>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/ir/simplify.h"

namespace heddle::network {

/// The single read that is all of the body of `op`, at indices that read nothing; null for all
/// other operations.
const Load* moved_read(const Operation& op);

/// Maps indices of a mover's result to indices of the tensor that it reads.
std::vector<Expr> read_through(const Operation& mover, std::span<const Expr> indices,
                               const Ranges& ranges);

/// The axes of `op`, spatial and reduced, with their extents at the largest sizes.
Ranges ranges_of(const Operation& op);

/// The number of indices that are more than an axis or a number.
int composed_indices(std::span<const Expr> indices);
/// Whether an index contains a division, as for a reshape that merges dimensions.
bool any_division(std::span<const Expr> indices);

/// Whether the mover's result has the elements of its operand in the same order, so that only the
/// shape changes.
bool keeps_order(const Operation& mover);

/// New axes like those of `op`, and the replacement of its own variables by them.
struct FreshAxes {
  explicit FreshAxes(const Operation& op);
  std::vector<Axis> axes;
  std::vector<VarBinding> bindings;
};

/// New axes like those spatial ones of `op` that `e` uses, for a stage that computes `e` once for
/// all others, and the indices at which a body of `op` reads that stage.
struct UsedAxes {
  UsedAxes(const Operation& op, const Expr& e);
  std::vector<Axis> axes;
  std::vector<VarBinding> bindings;
  std::vector<Expr> indices;
};

}  // namespace heddle::network
