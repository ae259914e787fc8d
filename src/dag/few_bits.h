// Weights of few bits, which are unpacked where they are read.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// Whether stage `s` makes wide elements of constants of few bits: it takes `times` the bytes of what
/// it reads or more, and looks nothing up.
constexpr double kTimesWider = 3,
                 kTimesWiderOnGpu = 1.75;  // of a GPU bytes with their scales as bf16 too
bool widens_bits(const ComputeDag& dag, int s, double times = kTimesWider);

/// Whether `op` reads `from` at places that are data; undefined: whether it reads anything so.
bool looks_up(const Operation& op, const Buffer& from = {});

}  // namespace heddle::dag
