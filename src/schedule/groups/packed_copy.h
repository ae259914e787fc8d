// Copies of constants that put side by side what a reader's innermost loop reads: packed weights.
#pragma once

#include "heddle/dag/compute_dag.h"
#include "heddle/target/target.h"

namespace heddle {

/// Whether stage `s` copies elements, and what the innermost loop of a sum reads of them lies nearer than in what it
/// copies. A product of matrices packs its operands itself, but not one that is written out in terms, and not that of one
/// row whose strips of the matrix would be narrow.
bool brings_together(const ComputeDag& dag, int s, const Target& target);

}  // namespace heddle
