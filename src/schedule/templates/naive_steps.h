// The schedule without optimisation, which every declaration has.
#pragma once

#include "heddle/schedule/schedule.h"
#include "heddle/target/target.h"

namespace heddle {

/// Records it for the graph of `to`: the stages are computed one after the other, with outer loops
/// fused and parallel. For a GPU: one kernel for each stage and one thread for each element.
void write_naive_steps(StepRecorder& to, const ComputeDag& dag, const Target& target);

}  // namespace heddle
