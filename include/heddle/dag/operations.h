// The arithmetic of a stage in operations that take the same time, and the bytes that it moves.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// Operations of one innermost evaluation, as StageInfo::flops_per_point; but one that is slow
/// (exp, a division, ..) counts as the sums that take as long.
double operations_per_point(const StageInfo& info);

/// The same for the whole stage.
double operations_of(const StageInfo& info);

/// Bytes of all tensors that stage `s` reads and writes, each counted once.
double stage_bytes(const ComputeDag& dag, int s);

/// Whether reduction `s` is bound by reading operands whose elements each serve a single result, even
/// if it reuses other operands: the matrix of a matrix-vector product, or the two whose rows are
/// multiplied element by element in the gradient of a normalisation.
bool streams_operands(const ComputeDag& dag, int s);

}  // namespace heddle
