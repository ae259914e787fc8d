// Serialised CPU candidates, for compiling on one machine and running on another.
#pragma once

#include "heddle/runtime/kernel.h"
#include "heddle/support/json.h"
#include "measure/process/task.h"

namespace heddle::measuring {

/// Compiles to {object, functions, args, persistent}: machine code for the target of the schedule,
/// which need not be this machine. Throws the errors of lowering and code generation.
Json compile_for_elsewhere(const ReplayedSchedule& replayed);

/// Links the result of compile_for_elsewhere for the same schedule. Throws a User error for a
/// target that does not run here and for JSON that is no such code.
Kernel load_compiled(const Json& code, const ReplayedSchedule& replayed);

}  // namespace heddle::measuring
