// Movers: stages that only change where elements lie (a transpose, a reshape, a slice, a copy).
#pragma once

#include <span>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/ir/simplify.h"

namespace heddle::network {

/// The single read that is all of the body of `op`, at indices that read nothing; null for all
/// other operations.
const Load* moved_read(const Operation& op);

/// What an element of a mover's result is: `indices` are those of the result, and those that are
/// returned are of what the mover reads.
std::vector<Expr> read_through(const Operation& mover, std::span<const Expr> indices,
                               const Ranges& ranges);

/// The axes of `op`, spatial and reduced, with their extents.
Ranges ranges_of(const Operation& op);

/// How many of the indices are more than an axis or a number.
int composed_indices(std::span<const Expr> indices);
/// Whether an index divides, as one of a reshape that merges dimensions does.
bool any_division(std::span<const Expr> indices);

/// Whether the mover's result has the elements of what it reads in the same order: a change of
/// shape alone.
bool keeps_order(const Operation& mover);

/// New axes like those of `op`, and what replaces its own variables by them.
struct FreshAxes {
  explicit FreshAxes(const Operation& op);
  std::vector<Axis> axes;
  std::vector<VarBinding> bindings;
};

}  // namespace heddle::network
