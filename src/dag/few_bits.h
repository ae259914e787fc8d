// Weights of few bits, which are unpacked where they are read.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// Whether stage `s` makes wide elements of constants of few bits: it takes three times the bytes of what
/// it reads or more, and looks nothing up.
bool widens_bits(const ComputeDag& dag, int s);

}  // namespace heddle::dag
