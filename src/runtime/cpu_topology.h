// The CPUs that this process may run on.
#pragma once

#include <vector>

namespace heddle::internal {

struct CpuTopology {
  int cores = 1;               // physical cores in the affinity mask
  std::vector<int> cpus = {};  // one logical CPU of each core first, then their hyper-threads
};

/// Read once, at first use.
const CpuTopology& cpu_topology();

}  // namespace heddle::internal
