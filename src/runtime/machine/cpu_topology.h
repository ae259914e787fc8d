// The CPUs that this process may run on, and the memory that is near to each of them.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

namespace heddle::internal {

/// The type owns no memory and has no destructor: threads of the pool read the topology while the
/// process exits, and an exported library that is closed leaves nothing behind.
class CpuTopology {
 public:
  static constexpr std::size_t kMaxCpus = 1024;  // the bits of a cpu_set_t

  int cores = 1;  // physical cores in the affinity mask

  /// One logical CPU of each core first, then their hyper-threads, both in the order of nodes.
  /// Empty where the system does not tell them.
  std::span<const int> cpus() const { return std::span(cpus_).first(count_); }
  /// The NUMA node of each of cpus(), whose memory is near to it.
  std::span<const int> nodes() const { return std::span(nodes_).first(count_); }

  /// Appends a CPU. At most kMaxCpus are kept.
  void add_cpu(int cpu, int node = 0) {
    if (count_ == kMaxCpus) return;
    cpus_[count_] = cpu;
    nodes_[count_++] = node;
  }

  /// The number of nodes that have CPUs of this process; at least 1.
  int num_nodes() const;
  /// The node of a CPU; 0 for one that is not among cpus().
  int node_of(int cpu) const;

 private:
  std::size_t count_ = 0;
  std::array<int, kMaxCpus> cpus_ = {}, nodes_ = {};
};

/// The topology, which is read once at first use.
const CpuTopology& cpu_topology();

/// Reads the topology of the CPUs `allowed` from the folder `system` ("/sys/devices/system", or a
/// folder of the same form). What is missing there counts as one core for each CPU and one node.
CpuTopology read_topology(const std::string& system, std::span<const int> allowed);

/// Restricts this process to these CPUs, which cpu_topology names from then on. It is meant for a
/// process without other threads, such as a fork that measures beside others on cores of its own.
/// Returns false, and changes nothing, where the system refuses.
bool run_on_cpus(std::span<const int> cpus);

/// Makes cpu_topology answer this, for tests on machines of one node. It is meant for a process
/// without other threads.
void assume_topology(const CpuTopology& topology);

/// The CPU that belongs to thread `index` of the pool, and the CPUs on which it may run. Thread 0
/// is the caller, which runs on the node `home`. The threads fill the cores of that node first and
/// then those of the others, so that a thread stays on one node whatever the number of threads is.
/// Chunk i of a region belongs to thread i. A thread therefore finds in the memory of its node what
/// it wrote there first.
struct ThreadPlace {
  int cpu = -1;
  std::vector<int> allowed = {};  // those of the node
};
ThreadPlace place_of_thread(const CpuTopology& topology, int home, int index);

/// The numbers of a list as Linux writes them: "0-3,8" has five. What is not a number ends it.
std::vector<int> parse_cpu_list(const std::string& text);

}  // namespace heddle::internal
