// The CPUs that this process may run on.
#pragma once

#include <span>
#include <vector>

namespace heddle::internal {

struct CpuTopology {
  int cores = 1;               // physical cores in the affinity mask
  std::vector<int> cpus = {};  // one logical CPU of each core first, then their hyper-threads
};

/// Read once, at first use.
const CpuTopology& cpu_topology();

/// Restricts this process to these CPUs, which cpu_topology names from then on. For a process that
/// has no other threads yet, such as a fork that measures beside others on cores of its own. False
/// where the system refuses, and then nothing changes.
bool run_on_cpus(std::span<const int> cpus);

}  // namespace heddle::internal
