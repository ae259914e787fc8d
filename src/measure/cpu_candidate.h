// A candidate for a CPU between the machine that compiles it and the one that runs it.
#pragma once

#include "heddle/runtime/kernel.h"
#include "heddle/support/json.h"
#include "measure/worker_task.h"

namespace heddle::measuring {

/// {object, functions, args, persistent}: machine code for the target of the schedule, which need
/// not be this machine. Throws what lowering and code generation throw.
Json compile_for_elsewhere(const ReplayedSchedule& replayed);

/// What compile_for_elsewhere made of the same schedule, linked. Throws a User error for a target
/// that does not run here and for what is no such code.
Kernel load_compiled(const Json& code, const ReplayedSchedule& replayed);

}  // namespace heddle::measuring
