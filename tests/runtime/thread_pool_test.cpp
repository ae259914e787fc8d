#include "heddle/runtime/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdint>
#include <mutex>
#include <numeric>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "runtime/machine/cpu_topology.h"
#include "runtime/pool/thread_pool_state.h"

namespace heddle {
namespace {

using Chunks = std::set<std::pair<std::int64_t, std::int64_t>>;

Chunks chunks_of(std::int64_t n) {
  Chunks chunks;
  std::mutex mutex;
  parallel_for(n, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    chunks.insert({begin, end});
  });
  return chunks;
}

/// Adds 1 to each of n counters in parallel and checks them.
bool covers_once(std::int64_t n) {
  std::vector<int> hits(static_cast<std::size_t>(n));
  parallel_for(n, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++hits[static_cast<std::size_t>(i)];
  });
  for (int hit : hits) {
    if (hit != 1) return false;
  }
  return true;
}

/// Waits until the condition holds; false if it does not within 20 s.
template <class Condition>
bool await(Condition condition) {
  const Timer timer;
  while (!condition()) {
    if (timer.elapsed_s() > 20) return false;
    std::this_thread::yield();
  }
  return true;
}

/// Waits until all workers of the pool sleep; false if there are none, or some never do.
bool await_parked_workers() {
  return await([] {
    const internal::WorkerCounts now = internal::count_workers();
    return now.workers > 0 && now.parked == now.workers;
  });
}

/// A region of n threads, none of which goes on before all are in it; each then calls `then`.
bool all_meet(int n, FunctionRef<void()> then = [] {}) {
  std::atomic<int> begun{0};
  std::atomic<bool> met{true};
  parallel_for(n, [&](std::int64_t, std::int64_t) {
    ++begun;
    if (!await([&] { return begun >= n || !met; })) met = false;
    then();
  });
  return met;
}

TEST(ThreadPool, ChunksAreContiguousAndBalanced) {
  const ScopedThreads four(4);
  EXPECT_EQ(chunks_of(10), (Chunks{{0, 3}, {3, 6}, {6, 8}, {8, 10}}));
  EXPECT_EQ(chunks_of(4), (Chunks{{0, 1}, {1, 2}, {2, 3}, {3, 4}}));
  EXPECT_EQ(chunks_of(2), (Chunks{{0, 1}, {1, 2}}));
  EXPECT_EQ(chunks_of(1), (Chunks{{0, 1}}));
  EXPECT_EQ(chunks_of(0), Chunks{});
  EXPECT_EQ(chunks_of(-5), Chunks{});
  EXPECT_EQ(chunks_of(INT64_MAX).rbegin()->second, INT64_MAX);
}

TEST(ThreadPool, TheCallerTakesPart) {
  const ScopedThreads two(2);
  std::mutex mutex;
  std::set<std::thread::id> ids;
  // The body waits until both have begun: the caller runs what no worker has taken in time.
  std::atomic<int> begun{0};
  parallel_for(2, [&](std::int64_t, std::int64_t) {
    {
      const std::lock_guard lock(mutex);
      ids.insert(std::this_thread::get_id());
    }
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    for (++begun; begun < 2 && std::chrono::steady_clock::now() < end;) std::this_thread::yield();
  });
  EXPECT_EQ(ids.size(), 2U);
  EXPECT_EQ(ids.count(std::this_thread::get_id()), 1U);
}

TEST(ThreadPool, ManySizesManyThreadCountsEveryIterationOnce) {
  for (int threads : {1, 2, 3, 5, 8}) {
    const ScopedThreads scope(threads);
    for (std::int64_t n : {1, 2, 3, 7, 8, 9, 100, 1001}) {
      for (int repeat = 0; repeat < 20; ++repeat) ASSERT_TRUE(covers_once(n));
    }
  }
}

TEST(ThreadPool, NestedRegionsRunSeriallyInTheirThread) {
  const ScopedThreads four(4);
  for (int repeat = 0; repeat < 50; ++repeat) {
    std::atomic<int> total{0}, strangers{0};
    parallel_for(4, [&](std::int64_t, std::int64_t) {
      const auto self = std::this_thread::get_id();
      parallel_for(10, [&](std::int64_t begin, std::int64_t end) {
        if (std::this_thread::get_id() != self) ++strangers;
        total += static_cast<int>(end - begin);
      });
    });
    EXPECT_EQ(total, 40);
    EXPECT_EQ(strangers, 0);
  }
  EXPECT_EQ(chunks_of(4).size(), 4U);  // and afterwards regions are parallel again
}

TEST(ThreadPool, ConcurrentCallersAreSafe) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> hosts;
  for (int host = 0; host < 6; ++host) {
    hosts.emplace_back([&, host] {
      const ScopedThreads scope(1 + host % 4);
      for (int repeat = 0; repeat < 200; ++repeat) {
        if (!covers_once(1 + (repeat * 37 + host) % 97)) ++wrong;
      }
    });
  }
  for (auto& host : hosts) host.join();
  EXPECT_EQ(wrong, 0);
}

TEST(ThreadPool, ExceptionsReachTheCaller) {
  const ScopedThreads four(4);
  for (int repeat = 0; repeat < 20; ++repeat) {
    EXPECT_THROW(parallel_for(4,
                              [](std::int64_t begin, std::int64_t) {
                                if (begin == 3) throw std::runtime_error("3");
                              }),
                 std::runtime_error);
    EXPECT_TRUE(covers_once(10));
  }
}

TEST(ThreadPool, CountsAreSetByProcessAndByScope) {
  const int before = num_threads();
  EXPECT_EQ(before, default_num_threads());
  set_num_threads(3);
  EXPECT_EQ(num_threads(), 3);
  {
    const ScopedThreads two(2);
    EXPECT_EQ(num_threads(), 2);
    {
      const ScopedThreads one(1);
      EXPECT_EQ(num_threads(), 1);
    }
    EXPECT_EQ(num_threads(), 2);
    std::thread([] { EXPECT_EQ(num_threads(), 3); }).join();
  }
  set_num_threads(0);
  EXPECT_EQ(num_threads(), before);
  EXPECT_THROW(set_num_threads(-1), Error);
  EXPECT_THROW(set_num_threads(1 << 20), Error);
  EXPECT_THROW(ScopedThreads(0), Error);
}

TEST(ThreadPool, WorkersWakeAfterTheyParked) {
  const ScopedThreads four(4);
  ASSERT_TRUE(all_meet(4));  // the workers are made
  for (int repeat = 0; repeat < 5; ++repeat) {
    ASSERT_TRUE(await_parked_workers());
    EXPECT_TRUE(all_meet(4));
  }
}

TEST(ThreadPool, RegionsWhileAWorkerWakesAreEachDoneOnce) {
  // The calls that it finds when it comes are the caller's work by then, all but the last.
  const ScopedThreads three(3);
  ASSERT_TRUE(all_meet(3));
  for (int repeat = 0; repeat < 5; ++repeat) {
    ASSERT_TRUE(await_parked_workers());
    for (int region = 0; region < 300; ++region) ASSERT_TRUE(covers_once(3 + region % 5));
  }
}

TEST(ThreadPool, AParkedWorkerIsWokenEachTime) {
  // A wake-up that is lost costs nobody a result, since the caller takes over: so the body waits.
  const ScopedThreads two(2);
  for (int repeat = 0; repeat < 40; ++repeat) {
    for (int region = 0; region < 3; ++region) ASSERT_TRUE(all_meet(2));
    ASSERT_TRUE(await_parked_workers());
  }
}

TEST(ThreadPool, HostThreadsShareWorkersThatParkInBetween) {
  std::atomic<int> wrong{0};
  int parked = 0;
  std::barrier all_rest(3, [&]() noexcept { parked += await_parked_workers() ? 1 : 0; });
  std::vector<std::thread> hosts;
  for (int host = 0; host < 3; ++host) {
    hosts.emplace_back([&, host] {
      const ScopedThreads scope(2 + host);
      for (int repeat = 0; repeat < 60; ++repeat) {
        if (repeat % 20 == 19) all_rest.arrive_and_wait();
        if (!covers_once(50 + host)) ++wrong;
      }
    });
  }
  for (auto& host : hosts) host.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(parked, 3);
}

TEST(ThreadPool, TheCallerParksWhileAWorkerIsSlow) {
  const ScopedThreads two(2);
  const std::thread::id caller = std::this_thread::get_id();
  std::atomic<bool> by_worker{false}, parked{false}, finished{false};
  // The caller does the chunk itself where the worker comes late: then once more.
  for (int attempt = 0; attempt < 1000 && !by_worker; ++attempt) {
    ASSERT_TRUE(all_meet(2));  // the worker is awake
    finished = false;
    parallel_for(2, [&](std::int64_t begin, std::int64_t) {
      if (begin == 0 || std::this_thread::get_id() == caller) return;
      by_worker = true;
      parked = await([] { return internal::caller_is_parked(); });
      finished = true;
    });
  }
  EXPECT_TRUE(by_worker);
  EXPECT_TRUE(parked);
  EXPECT_TRUE(finished);  // parallel_for returned after it
}

TEST(ThreadPool, PinningChangesNoResult) {
  const ScopedThreads four(4);
  EXPECT_FALSE(thread_pinning());
  set_thread_pinning(true);
  EXPECT_TRUE(thread_pinning());
  EXPECT_TRUE(covers_once(100));
  set_thread_pinning(false);
  EXPECT_TRUE(covers_once(100));
}

#ifdef __linux__
// A parked worker is woken on another core than the caller's. It takes the restriction off itself
// when it runs, in the next region at the latest where it was faster than its caller.
TEST(ThreadPool, AWorkerThatWasParkedMayRunAnywhereAgain) {
  if (internal::cpu_topology().num_nodes() > 1) GTEST_SKIP() << "workers stay on their nodes";
  const ScopedThreads two(2);
  const std::thread::id caller = std::this_thread::get_id();
  const auto allowed_cpus = [] {
    cpu_set_t mask;
    CPU_ZERO(&mask);
    ::pthread_getaffinity_np(::pthread_self(), sizeof mask, &mask);
    return CPU_COUNT(&mask);
  };
  ASSERT_TRUE(all_meet(2));
  for (int repeat = 0; repeat < 5; ++repeat) {
    ASSERT_TRUE(await_parked_workers());
    std::atomic<int> of_worker{0};
    const auto anywhere = [&] {
      return all_meet(2,
                      [&] {
                        if (std::this_thread::get_id() != caller) of_worker = allowed_cpus();
                      }) &&
             of_worker == allowed_cpus();
    };
    bool may = false;
    for (int region = 0; region < 20 && !may; ++region) may = anywhere();
    EXPECT_TRUE(may) << of_worker << " of " << allowed_cpus() << " CPUs";
  }
}
#endif

TEST(ThreadPool, AForkedChildHasAPoolOfItsOwn) {
  const ScopedThreads four(4);
  ASSERT_TRUE(covers_once(10));
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  // _exit: the child must not run the parent's test machinery.
  if (child == 0) ::_exit(covers_once(1000) && chunks_of(4).size() == 4 ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(covers_once(10));
}

TEST(ThreadPool, TheCAbiPassesTheContext) {
  const ScopedThreads two(2);
  std::atomic<std::int64_t> sum{0};
  const int status = heddle_parallel_for(
      [](std::int64_t begin, std::int64_t end, void* context) {
        for (std::int64_t i = begin; i < end; ++i) {
          static_cast<std::atomic<std::int64_t>*>(context)->fetch_add(i);
        }
      },
      &sum, 1000);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(sum, 499500);
}

// A fork that measures beside others has cores of its own, and its threads stay there.
TEST(ThreadPool, AForkKeepsToItsCpus) {
  const int last = internal::cpu_topology().cpus().back();
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const bool kept = internal::run_on_cpus(std::vector<int>{last}) &&
                      internal::cpu_topology().cpus().size() == 1 &&
                      internal::cpu_topology().cpus().front() == last && covers_once(1000) &&
                      ::sched_getcpu() == last;
    ::_exit(kept && !internal::run_on_cpus({}) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace heddle
