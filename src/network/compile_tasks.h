// Kernels of tasks, compiled on several threads.
#pragma once

#include <span>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/runtime/kernel.h"
#include "heddle/schedule/schedule.h"
#include "heddle/support/function_ref.h"

namespace heddle::network {

struct CompiledTasks {
  std::vector<Kernel> kernels;
  NetworkBuildReport report;
};

/// Whether code is looked for, and left, on the disk. What is compiled to be compared once is not.
enum class OnDisk { No, Yes };

/// A kernel for each schedule. Arguments are those of the schedule's own declaration, placeholders
/// first. `tasks`: the number of its task, for each. Where `stop` becomes true, the kernels that
/// are missing are empty handles.
CompiledTasks compile_tasks(
    std::span<const Schedule> schedules, std::span<const size_t> tasks, OnDisk on_disk,
    FunctionRef<bool()> stop = [] { return false; });

}  // namespace heddle::network
