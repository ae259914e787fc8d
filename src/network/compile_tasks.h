// Kernels of tasks, compiled on several threads.
#pragma once

#include <span>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/schedule/schedule.h"
#include "heddle/support/function_ref.h"

namespace heddle::network {

/// A kernel for each schedule. Arguments are those of the schedule's own declaration, placeholders
/// first. `names`: the number of its task, for each. Where `stop` becomes true, the kernels that
/// are missing are empty handles.
std::vector<Kernel> compile_tasks(
    std::span<const Schedule> schedules, std::span<const size_t> tasks,
    FunctionRef<bool()> stop = [] { return false; });

}  // namespace heddle::network
