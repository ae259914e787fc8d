// The CPUs that this process may run on.
#pragma once

#include <span>
#include <vector>

namespace heddle::internal {

struct CpuTopology {
  int cores = 1;               // physical cores in the affinity mask
  std::vector<int> cpus = {};  // one logical CPU of each core first, then their hyper-threads
};

/// The topology, which is read once at first use.
const CpuTopology& cpu_topology();

/// Restricts this process to these CPUs, which cpu_topology names from then on. It is meant for a
/// process without other threads, such as a fork that measures beside others on cores of its own.
/// Returns false, and changes nothing, where the system refuses.
bool run_on_cpus(std::span<const int> cpus);

}  // namespace heddle::internal
