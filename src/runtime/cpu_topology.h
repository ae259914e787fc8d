// The CPUs that this process may run on.
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace heddle::internal {

/// The type owns no memory and has no destructor: threads of the pool read the topology while the
/// process exits, and an exported library that is closed leaves nothing behind.
class CpuTopology {
 public:
  static constexpr std::size_t kMaxCpus = 1024;  // the bits of a cpu_set_t

  int cores = 1;  // physical cores in the affinity mask

  /// One logical CPU of each core first, then their hyper-threads. Empty where the system does not
  /// tell them.
  std::span<const int> cpus() const { return std::span(cpus_).first(count_); }

  /// Appends a CPU. At most kMaxCpus are kept.
  void add_cpu(int cpu) {
    if (count_ < kMaxCpus) cpus_[count_++] = cpu;
  }

 private:
  std::size_t count_ = 0;
  std::array<int, kMaxCpus> cpus_ = {};
};

/// The topology, which is read once at first use.
const CpuTopology& cpu_topology();

/// Restricts this process to these CPUs, which cpu_topology names from then on. It is meant for a
/// process without other threads, such as a fork that measures beside others on cores of its own.
/// Returns false, and changes nothing, where the system refuses.
bool run_on_cpus(std::span<const int> cpus);

}  // namespace heddle::internal
