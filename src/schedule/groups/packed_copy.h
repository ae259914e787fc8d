// Copies of constants that put side by side what a reader's innermost loop reads: packed weights.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle {

/// Whether stage `s` copies elements, and what the innermost loop of a sum reads of them lies nearer than in what it
/// copies. A product of matrices packs its operands itself, but not one that is written out in terms.
bool brings_together(const ComputeDag& dag, int s);

}  // namespace heddle
