#include "runtime/machine/cpu_topology.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#ifdef __linux__
#include <sched.h>
#endif

namespace heddle::internal {
namespace {

std::string read_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

int read_int(const std::string& path, int fallback) {
  int value = fallback;
  return std::sscanf(read_line(path).c_str(), "%d", &value) == 1 ? value : fallback;
}

/// The node of each CPU that some node names. Nodes may have memory alone.
std::map<int, int> read_nodes(const std::string& system) {
  std::map<int, int> nodes;
  for (const int node : parse_cpu_list(read_line(system + "/node/online"))) {
    for (const int cpu :
         parse_cpu_list(read_line(system + "/node/node" + std::to_string(node) + "/cpulist")))
      nodes[cpu] = node;
  }
  return nodes;
}

/// The CPUs of the affinity mask; empty where the system does not tell them.
std::vector<int> allowed_cpus() {
  std::vector<int> cpus;
#ifdef __linux__
  cpu_set_t mask;
  CPU_ZERO(&mask);
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
#endif
  return cpus;
}

CpuTopology read_topology_of_process() {
  return read_topology("/sys/devices/system", allowed_cpus());
}

static_assert(std::is_trivially_destructible_v<CpuTopology>);

CpuTopology& known_topology() {
  static CpuTopology topology = read_topology_of_process();
  return topology;
}

}  // namespace

std::vector<int> parse_cpu_list(const std::string& text) {
  constexpr int kMost = 1 << 16;
  std::vector<int> numbers;
  const char* at = text.c_str();
  int first = 0, last = 0, length = 0;
  while (std::sscanf(at, "%d%n", &first, &length) == 1 && first >= 0) {
    at += length;
    last = first;
    if (std::sscanf(at, "-%d%n", &last, &length) == 1) at += length;
    for (int n = first; n <= last && n < kMost; ++n) numbers.push_back(n);
    if (*at != ',') break;
    ++at;
  }
  return numbers;
}

CpuTopology read_topology(const std::string& system, std::span<const int> allowed) {
  const std::map<int, int> nodes = read_nodes(system);
  const auto node_of = [&](int cpu) {
    const auto found = nodes.find(cpu);
    return found == nodes.end() ? 0 : found->second;
  };
  std::set<std::pair<int, int>> seen;
  std::vector<int> cores, siblings;
  for (const int cpu : allowed) {
    const std::string folder = system + "/cpu/cpu" + std::to_string(cpu) + "/topology/";
    const int package = read_int(folder + "physical_package_id", 0);
    const int core = read_int(folder + "core_id", -1 - cpu);  // unknown: a core of its own
    (seen.insert({package, core}).second ? cores : siblings).push_back(cpu);
  }
  CpuTopology topology;
  topology.cores = static_cast<int>(
      cores.empty() ? std::max(1U, std::thread::hardware_concurrency()) : cores.size());
  for (std::vector<int>* part : {&cores, &siblings}) {
    std::stable_sort(part->begin(), part->end(),
                     [&](int a, int b) { return node_of(a) < node_of(b); });
    for (const int cpu : *part) topology.add_cpu(cpu, node_of(cpu));
  }
  return topology;
}

int CpuTopology::num_nodes() const {
  const std::set<int> all(nodes().begin(), nodes().end());
  return static_cast<int>(std::max<std::size_t>(1, all.size()));
}

int CpuTopology::node_of(int cpu) const {
  const auto found = std::find(cpus().begin(), cpus().end(), cpu);
  return found == cpus().end() ? 0 : nodes()[static_cast<std::size_t>(found - cpus().begin())];
}

ThreadPlace place_of_thread(const CpuTopology& topology, int home, int index) {
  // The cores in the order in which threads fill them: those of `home`, then the others. The
  // hyper-threads follow in the same order.
  const std::span<const int> cpus = topology.cpus(), nodes = topology.nodes();
  const std::size_t cores = std::min(static_cast<std::size_t>(topology.cores), cpus.size());
  std::vector<std::size_t> order;
  for (const auto& [begin, end] :
       {std::pair(std::size_t{0}, cores), std::pair(cores, cpus.size())}) {
    for (const bool at_home : {true, false}) {
      for (std::size_t i = begin; i < end; ++i) {
        if ((nodes[i] == home) == at_home) order.push_back(i);
      }
    }
  }
  ThreadPlace place;
  if (order.empty()) return place;
  const std::size_t own = order[static_cast<std::size_t>(index) % order.size()];
  place.cpu = cpus[own];
  for (std::size_t i = 0; i < cpus.size(); ++i) {
    if (nodes[i] == nodes[own]) place.allowed.push_back(cpus[i]);
  }
  return place;
}

const CpuTopology& cpu_topology() { return known_topology(); }

void assume_topology(const CpuTopology& topology) { known_topology() = topology; }

bool run_on_cpus([[maybe_unused]] std::span<const int> cpus) {
#ifdef __linux__
  cpu_set_t mask;
  CPU_ZERO(&mask);
  for (const int cpu : cpus) {
    if (cpu < 0 || cpu >= CPU_SETSIZE) return false;
    CPU_SET(static_cast<std::size_t>(cpu), &mask);
  }
  if (cpus.empty() || ::sched_setaffinity(0, sizeof mask, &mask) != 0) return false;
  known_topology() = read_topology_of_process();
  return true;
#else
  return false;
#endif
}

}  // namespace heddle::internal
