// Kernels of tasks, compiled on several threads.
#pragma once

#include <span>
#include <vector>

#include "heddle/network/network.h"
#include "heddle/runtime/kernel.h"
#include "heddle/schedule/schedule.h"
#include "heddle/support/function_ref.h"
#include "network/cut/horizontal.h"

namespace heddle::network {

struct CompiledTasks {
  std::vector<Kernel> kernels;
  std::vector<std::vector<Var>> sizes;  ///< those that each kernel takes
  NetworkBuildReport report;
};

/// Whether code is looked up and stored on the disk. Code that is compiled for one comparison is
/// not, except that of GPUs, which the workers that measured it have left there.
enum class OnDisk { No, Yes };

/// Compiles a kernel for each schedule. Arguments are those of the schedule's own declaration,
/// placeholders first. `tasks` has a number for each, after which it is called. Where `stop`
/// becomes true, the missing kernels are empty handles.
CompiledTasks compile_tasks(
    std::span<const Schedule> schedules, std::span<const size_t> tasks, OnDisk on_disk,
    FunctionRef<bool()> stop = [] { return false; });

/// The same for the tasks that share launches: NetworkSteps::joined_kernels().
CompiledTasks compile_joined(const NetworkSteps& steps);

}  // namespace heddle::network
