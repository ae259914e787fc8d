// Cores and NUMA nodes, read from a folder of the form of /sys; and which thread belongs where.
#include "runtime/machine/cpu_topology.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <span>
#include <string>
#include <thread>

#include "heddle/runtime/ndarray.h"
#include "heddle/runtime/thread_pool.h"
#include "runtime/machine/first_touch.h"

namespace heddle::internal {
namespace {

namespace fs = std::filesystem;

std::vector<int> list(std::span<const int> numbers) { return {numbers.begin(), numbers.end()}; }

std::vector<int> numbers(int n) {
  std::vector<int> all(static_cast<std::size_t>(n));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

/// A folder like /sys/devices/system.
class CpuTopologyTest : public ::testing::Test {
 protected:
  void SetUp() override {
    root_ = fs::path(::testing::TempDir()) / ("heddle_topology_" + std::to_string(::getpid()));
    fs::create_directories(root_);
  }
  void TearDown() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << text << "\n";
  }
  void add_cpu(int cpu, int package, int core) const {
    const std::string folder = "cpu/cpu" + std::to_string(cpu) + "/topology/";
    write(folder + "physical_package_id", std::to_string(package));
    write(folder + "core_id", std::to_string(core));
  }
  /// Two sockets of four cores of two hyper-threads. CPUs are numbered as Linux does: a first
  /// hyper-thread of each core, then the second ones. Each socket is a node; node 2 is memory
  /// without cores.
  void two_sockets() const {
    for (int cpu = 0; cpu < 16; ++cpu) add_cpu(cpu, cpu % 8 / 4, cpu % 4);
    write("node/online", "0-2");
    write("node/node0/cpulist", "0-3,8-11");
    write("node/node1/cpulist", "4-7,12-15");
    write("node/node2/cpulist", "");
  }
  CpuTopology read(const std::vector<int>& allowed) const {
    return read_topology(root_.string(), allowed);
  }

  fs::path root_;
};

TEST(CpuList, IsNumbersAndRanges) {
  using Numbers = std::vector<int>;
  EXPECT_EQ(parse_cpu_list("0-3,8"), (Numbers{0, 1, 2, 3, 8}));
  EXPECT_EQ(parse_cpu_list("5"), Numbers{5});
  EXPECT_EQ(parse_cpu_list("0-1,4-5,7\n"), (Numbers{0, 1, 4, 5, 7}));
  for (const char* nothing : {"", "\n", "x", "-1", ",", "3-1"})
    EXPECT_EQ(parse_cpu_list(nothing), Numbers{}) << nothing;
  EXPECT_EQ(parse_cpu_list("1,x"), Numbers{1});
  EXPECT_LE(parse_cpu_list("0-99999999").size(), 1U << 16);
}

TEST_F(CpuTopologyTest, CoresComeBeforeHyperThreadsAndNodesInOrder) {
  two_sockets();
  const CpuTopology all = read(numbers(16));
  EXPECT_EQ(all.cores, 8);
  EXPECT_EQ(list(all.cpus()), numbers(16));
  EXPECT_EQ(list(all.nodes()), (std::vector<int>{0, 0, 0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 1, 1, 1, 1}));
  EXPECT_EQ(all.num_nodes(), 2);
  EXPECT_EQ(all.node_of(13), 1);
  EXPECT_EQ(all.node_of(99), 0);

  // An affinity mask: both threads of core 0, one of core 1 of each socket.
  const CpuTopology some = read({0, 5, 8, 9});
  EXPECT_EQ(some.cores, 3);
  EXPECT_EQ(list(some.cpus()), (std::vector<int>{0, 9, 5, 8}));
  EXPECT_EQ(list(some.nodes()), (std::vector<int>{0, 0, 1, 0}));
}

TEST_F(CpuTopologyTest, NodesThatAlternateAreSortedByNode) {
  for (int cpu = 0; cpu < 4; ++cpu) add_cpu(cpu, cpu % 2, cpu / 2);
  write("node/online", "0-1");
  write("node/node0/cpulist", "0,2");
  write("node/node1/cpulist", "1,3");
  const CpuTopology t = read(numbers(4));
  EXPECT_EQ(list(t.cpus()), (std::vector<int>{0, 2, 1, 3}));
  EXPECT_EQ(list(t.nodes()), (std::vector<int>{0, 0, 1, 1}));
}

TEST_F(CpuTopologyTest, WhatIsMissingIsOneNodeOfSingleCores) {
  const CpuTopology bare = read({0, 1, 2});
  EXPECT_EQ(bare.cores, 3);
  EXPECT_EQ(list(bare.cpus()), numbers(3));
  EXPECT_EQ(bare.num_nodes(), 1);
  EXPECT_GE(read({}).cores, 1);
  EXPECT_EQ(read({}).num_nodes(), 1);
  EXPECT_EQ(place_of_thread(read({}), 0, 3).cpu, -1);
}

TEST_F(CpuTopologyTest, ThreadsFillTheNodeOfTheCallerFirst) {
  two_sockets();
  const CpuTopology t = read(numbers(16));
  std::vector<int> from_0, from_1;
  for (int i = 0; i < 16; ++i) {
    from_0.push_back(place_of_thread(t, 0, i).cpu);
    from_1.push_back(place_of_thread(t, 1, i).cpu);
  }
  EXPECT_EQ(from_0, numbers(16));
  EXPECT_EQ(from_1, (std::vector<int>{4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11}));
  EXPECT_EQ(place_of_thread(t, 0, 16).cpu, 0);  // more threads than CPUs
  // A worker may move within its node, hyper-threads included.
  EXPECT_EQ(place_of_thread(t, 0, 5).allowed, (std::vector<int>{4, 5, 6, 7, 12, 13, 14, 15}));
  // A node that has no core of this process: the nodes that there are.
  EXPECT_EQ(place_of_thread(t, 7, 0).cpu, 0);
}

#ifdef __linux__
/// Runs the function in a fork, which has a pool and a topology of its own.
template <class Function>
void expect_in_fork(const Function& function) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(function() ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

std::vector<int> own_affinity() {
  cpu_set_t mask;
  CPU_ZERO(&mask);
  std::vector<int> cpus;
  if (::sched_getaffinity(0, sizeof mask, &mask) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &mask)) cpus.push_back(cpu);
  }
  return cpus;
}

/// The affinity of the worker that runs chunk 1 of 2; empty where it does not come in time.
std::vector<int> affinity_of_worker() {
  const auto caller = std::this_thread::get_id();
  std::vector<int> found;
  for (int attempt = 0; attempt < 200 && found.empty(); ++attempt) {
    std::atomic<int> begun{0};
    parallel_for(2, [&](std::int64_t, std::int64_t) {
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(1);
      for (++begun; begun < 2 && std::chrono::steady_clock::now() < end;) std::this_thread::yield();
      if (std::this_thread::get_id() != caller) found = own_affinity();
    });
  }
  return found;
}

// The real CPUs of this machine, with half of them said to be of another node.
TEST_F(CpuTopologyTest, WorkersStayOnTheirNodes) {
  const std::vector<int> cpus = list(cpu_topology().cpus());
  if (cpu_topology().cores < 2) GTEST_SKIP() << "one core";
  CpuTopology t;
  t.cores = static_cast<int>(cpus.size());
  for (const int cpu : cpus) t.add_cpu(cpu, cpu == cpus[0] ? 0 : 1);
  std::vector<int> others(cpus.begin() + 1, cpus.end());
  std::sort(others.begin(), others.end());
  expect_in_fork([&] {
    // The caller is kept on the node of one core, so that the worker belongs to the other one.
    if (!run_on_cpus(std::span(cpus).first(1))) return false;
    assume_topology(t);
    const ScopedThreads two(2);
    for (int repeat = 0; repeat < 3; ++repeat) {
      if (affinity_of_worker() != others) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));  // it parks and is woken again
    }
    set_thread_pinning(true);
    if (affinity_of_worker() != std::vector<int>{cpus[1]}) return false;
    set_thread_pinning(false);
    return affinity_of_worker() == others;
  });
}

// Large arrays are touched by all threads there; their values are what they are on one node.
TEST_F(CpuTopologyTest, ArraysThatAreTouchedByPartsHoldTheirValues) {
  const NDArray random = NDArray::random({1 << 20}, f32, 7);
  CpuTopology t = cpu_topology();
  t.add_cpu(t.cpus().back(), 1);  // a second node, even where there is one CPU only
  expect_in_fork([&] {
    assume_topology(t);
    const ScopedThreads two(2);
    const auto all_are = [](const NDArray& array, float value) {
      const auto* x = array.data<float>();
      return std::all_of(x, x + array.size(), [&](float y) { return y == value; });
    };
    const NDArray same = NDArray::random({1 << 20}, f32, 7);
    return all_are(NDArray::zeros({1 << 20}, f32), 0) &&
           all_are(NDArray::full({1 << 20}, f32, 3), 3) &&
           std::equal(same.data<float>(), same.data<float>() + same.size(), random.data<float>());
  });
}
#endif

}  // namespace
}  // namespace heddle::internal
