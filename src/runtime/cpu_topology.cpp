#include "runtime/cpu_topology.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef __linux__
#include <sched.h>
#endif

namespace heddle::internal {
namespace {

#ifdef __linux__
int read_int(const std::string& path, int fallback) {
  std::FILE* file = std::fopen(path.c_str(), "re");
  if (file == nullptr) return fallback;
  int value = fallback;
  if (std::fscanf(file, "%d", &value) != 1) value = fallback;
  std::fclose(file);
  return value;
}
#endif

CpuTopology read_topology() {
  CpuTopology topology;
#ifdef __linux__
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) == 0) {
    std::set<std::pair<int, int>> seen;
    std::vector<int> siblings;
    for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
      if (!CPU_ISSET(cpu, &mask)) continue;
      const std::string folder = "/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/";
      const int package = read_int(folder + "physical_package_id", 0);
      const int core = read_int(folder + "core_id", -1 - cpu);  // unknown: a core of its own
      if (seen.insert({package, core}).second) {
        topology.add_cpu(cpu);
      } else {
        siblings.push_back(cpu);
      }
    }
    topology.cores = static_cast<int>(topology.cpus().size());
    for (const int cpu : siblings) topology.add_cpu(cpu);
  }
#endif
  if (topology.cpus().empty()) {
    topology.cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }
  return topology;
}

static_assert(std::is_trivially_destructible_v<CpuTopology>);

CpuTopology& known_topology() {
  static CpuTopology topology = read_topology();
  return topology;
}

}  // namespace

const CpuTopology& cpu_topology() { return known_topology(); }

bool run_on_cpus([[maybe_unused]] std::span<const int> cpus) {
#ifdef __linux__
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
    CPU_SET(static_cast<std::size_t>(cpu), &mask);
  }
  if (cpus.empty() || ::sched_setaffinity(0, sizeof mask, &mask) != 0) return false;
  known_topology() = read_topology();
  return true;
#else
  return false;
#endif
}

}  // namespace heddle::internal
