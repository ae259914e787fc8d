// Calls of a network: buffers, constants, mistakes, threads.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <thread>

#include "heddle/runtime/thread_pool.h"

#include "network/cut/compile_tasks.h"
#include "network/cut/kernel_clones.h"
#include "network/network_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

// x -> four equal dense layers with a relu.
struct Stack {
  Tensor x = placeholder({4, 16}, f32, "x");
  std::vector<Tensor> w;
  Tensor y;
  Stack() {
    y = x;
    for (int i = 0; i < 4; ++i) {
      w.push_back(weights({16, 16}, "w" + std::to_string(i)));
      y = ops::relu(ops::matmul(y, w.back()));
    }
  }
  std::vector<Tensor> args() const { return {x, w[0], w[1], w[2], w[3], y}; }
};

TEST(NetworkKernel, BuffersWhoseLivesDoNotOverlapShareMemory) {
  const Stack s;
  const NetworkKernel run = Network({s.y}).build(s.args());
  // Three pass between four nodes; two are alive at a time.
  EXPECT_EQ(run.workspace_bytes(), 2 * 4 * 16 * 4);
}

TEST(NetworkKernel, OneNodeNeedsNoBuffers) {
  Tensor x = placeholder({4, 4}, f32, "x"), y = ops::relu(x);
  EXPECT_EQ(Network({y}).build({x, y}).workspace_bytes(), 0);
}

TEST(NetworkKernel, TakesArgumentsInTheOrderOfBuild) {
  const Stack s;
  const Network net({s.y});
  std::vector<Tensor> args{s.y, s.w[3], s.x, s.w[1], s.w[0], s.w[2]};
  const NetworkKernel run = net.build(args);
  std::vector<NDArray> arrays = arrays_for(args);
  run.call(arrays);
  EXPECT_EQ(differs_from_interpreter({s.y}, args, arrays), "");
  ASSERT_EQ(run.args().size(), 6u);
  EXPECT_TRUE(run.args()[0].output);
  EXPECT_TRUE(run.args()[1].constant);
  EXPECT_EQ(run.args()[2].name, "x");
}

TEST(NetworkKernel, EveryLayerKeepsItsOwnPreparedWeights) {
  const Stack s;
  const NetworkKernel run = Network({s.y}).build(s.args());
  std::vector<NDArray> arrays = arrays_for(s.args());
  run.call(arrays);
  const NDArray before = arrays[5].copy();
  // Were any layer to pack its weights again at the second call, it would see that they changed.
  std::vector<NDArray> saved;
  for (int i = 1; i <= 4; ++i) {
    saved.push_back(arrays[i].copy());
    arrays[i].fill(0.25);
  }
  run.call(arrays);
  EXPECT_TRUE(allclose(arrays[5], before));
  run.refresh();
  run.call(arrays);
  EXPECT_FALSE(allclose(arrays[5], before));
  EXPECT_EQ(differs_from_interpreter({s.y}, s.args(), arrays), "");
}

TEST(NetworkKernel, NodesOfTheSameWeightsShareThePreparedOnes) {
  const Tensor x = placeholder({1, 16}, f32, "x"), w = weights({16, 16}, "w"),
               other = weights({16, 16}, "other");
  std::vector<Tensor> steps{x};
  for (const Tensor& of : {w, other, w}) steps.push_back(ops::relu(ops::dense(steps.back(), of)));
  const std::vector<Tensor> args{x, w, other, steps.back()};
  const Network net({steps.back()});
  ASSERT_EQ(net.tasks().size(), 1U);
  ASSERT_EQ(net.nodes().size(), 3U);

  const size_t tasks[] = {0};
  network::KernelClones clones(
      network::compile_tasks(net.static_schedules(), tasks, network::OnDisk::No).kernels[0]);
  const std::vector<NDArray> arrays = arrays_for(args);
  std::vector<const void*> packed;
  for (const NetworkNode& node : net.nodes()) {
    std::vector<NDArray> of_node;
    for (const Tensor& t : node.inputs)
      of_node.push_back(t.same_as(w) ? arrays[1] : t.same_as(other) ? arrays[2] : arrays[0]);
    of_node.push_back(arrays[3]);
    const std::vector<NDArray> values = clones.of(node).prepared(of_node);
    ASSERT_EQ(values.size(), 1U);
    packed.push_back(std::as_const(values[0]).data());
  }
  EXPECT_EQ(packed[0], packed[2]);
  EXPECT_NE(packed[0], packed[1]);

  const NetworkKernel run = net.build(args);
  run.call(arrays);
  EXPECT_EQ(differs_from_interpreter({steps.back()}, args, arrays), "");
}

TEST(NetworkKernel, AcceptsSchedulesOfAnEqualDeclaration) {
  // Records replay on a declaration of the same structure, whose tensors are others.
  const Stack a, b;
  const Network net({a.y}), other({b.y});
  const NetworkKernel run = net.build(a.args(), other.static_schedules());
  std::vector<NDArray> arrays = arrays_for(a.args());
  run.call(arrays);
  EXPECT_EQ(differs_from_interpreter({a.y}, a.args(), arrays), "");
}

TEST(NetworkKernel, TakesTheSchedulesOfAReport) {
  const Stack s;
  const Network net({s.y});
  TuneReport report;
  for (const Schedule& schedule : net.naive_schedules()) {
    report.tasks.push_back({.name = "task",
                            .config = {},
                            .schedule = schedule,
                            .static_seconds = 2,
                            .best_seconds = 1,
                            .trials = 10,
                            .improved = true});
  }
  const NetworkKernel run = net.build(s.args(), report);
  std::vector<NDArray> arrays = arrays_for(s.args());
  run.call(arrays);
  EXPECT_EQ(differs_from_interpreter({s.y}, s.args(), arrays), "");
  EXPECT_THAT(message_of([&] { net.build(s.args(), TuneReport{}); }),
              HasSubstr("1 tasks, but 0 schedules"));
}

TEST(NetworkKernel, SaysWhichSchedulesItWants) {
  const Stack s;
  const Network net({s.y}), other({digits_network()});
  EXPECT_THAT(message_of([&] { net.build(s.args(), other.static_schedules()); }),
              HasSubstr("the network has 1 tasks, but"));
  EXPECT_THAT(message_of([&] { net.build(s.args(), {other.static_schedules()[0]}); }),
              HasSubstr("schedule 0 is not for task"));
}

TEST(NetworkKernel, RefusesTensorsThatAreNotItsArguments) {
  const Stack s;
  const Network net({s.y});
  std::vector<Tensor> args = s.args();
  args.pop_back();
  EXPECT_THAT(message_of([&] { net.build(args); }), HasSubstr("is missing from the arguments"));
  args = s.args();
  args.push_back(s.x);
  EXPECT_THAT(message_of([&] { net.build(args); }), HasSubstr("'x' is listed twice"));
  args = s.args();
  args.push_back(placeholder({3}, f32, "stranger"));
  EXPECT_THAT(message_of([&] { net.build(args); }),
              HasSubstr("'stranger' is neither an input nor an output"));
  args = s.args();
  args[0] = Tensor();
  EXPECT_THAT(message_of([&] { net.build(args); }), HasSubstr("neither an input nor an output"));
}

TEST(NetworkKernel, ChecksArraysAsAKernelDoes) {
  const Stack s;
  const Network net({s.y});
  const NetworkKernel run = net.build(s.args());
  const Kernel kernel = build(create_schedule({s.y}), s.args(), {.name = "network"});
  const std::vector<NDArray> right = arrays_for(s.args());
  auto expect_same_message = [&](const std::vector<NDArray>& arrays, const char* part) {
    const std::string got = message_of([&] { run.call(arrays); });
    EXPECT_THAT(got, HasSubstr(part));
    EXPECT_EQ(got, message_of([&] { kernel.call(arrays); }));
  };
  std::vector<NDArray> arrays = right;
  arrays.pop_back();
  expect_same_message(arrays, "takes 6 arguments, but 5 were given");
  arrays = right;
  arrays[0] = NDArray::zeros({4, 15}, f32);
  expect_same_message(arrays, "argument 0 ('x') of kernel 'network' must have shape {4, 16}");
  arrays = right;
  arrays[1] = NDArray::zeros({16, 16}, f64);
  expect_same_message(arrays, "must be f32, but is f64");
  arrays = right;
  arrays[2] = NDArray();
  expect_same_message(arrays, "is no array");
  arrays = right;
  arrays[5] = arrays[0];
  expect_same_message(arrays, "overlap in memory");
  // And it still works.
  run.call(right);
  EXPECT_EQ(differs_from_interpreter({s.y}, s.args(), right), "");
  EXPECT_THAT(message_of([&] { NetworkKernel()(right[0]); }), HasSubstr("never built"));
}

TEST(NetworkKernel, TwoHostThreadsMayCallIt) {
  const Stack s;
  const NetworkKernel run = Network({s.y}).build(s.args());
  std::vector<std::string> wrong(2);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      std::vector<NDArray> arrays = arrays_for(s.args(), 100 * t + 1);
      for (int i = 0; i < 50 && wrong[t].empty(); ++i) {
        arrays[5].fill(77);
        run.call(arrays);
        wrong[t] = differs_from_interpreter({s.y}, s.args(), arrays);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong[0], "");
  EXPECT_EQ(wrong[1], "");
}

// Two tasks, both of them with parallel loops.
struct Wide {
  Tensor x = placeholder({128, 96}, f32, "x");
  Tensor w0 = weights({96, 160}, "w0"), w1 = weights({160, 64}, "w1");
  Tensor y = ops::relu(ops::matmul(ops::relu(ops::matmul(x, w0)), w1));
  std::vector<Tensor> args() const { return {x, w0, w1, y}; }
};

// Ends the program where `work` does not end, because the tests look for deadlocks.
template <class F>
void must_end(F work) {
  std::future<void> done = std::async(std::launch::async, work);
  if (done.wait_for(std::chrono::seconds(60)) == std::future_status::ready) return done.get();
  std::fputs("deadlock\n", stderr);
  std::_Exit(1);
}

// The region has the thread pool and would wait for the network; the plain calls have the network
// and wait for the pool.
template <class Callable>
void call_from_a_region_and_beside(const Callable& run, const std::vector<Tensor>& args) {
  must_end([&] {
    const std::vector<NDArray> constants = arrays_for(args);
    const auto arrays = [&](uint64_t seed) {
      std::vector<NDArray> all = arrays_for(args, seed);
      for (size_t i = 1; i < 3; ++i) all[i] = constants[i];
      return all;
    };
    std::atomic<bool> stop{false};
    std::thread plain([&] {
      const ScopedThreads threads(2);
      const std::vector<NDArray> mine = arrays(7);
      while (!stop) {
        run.refresh();
        run.call(mine);
      }
    });
    const ScopedThreads threads(2);
    std::vector<std::vector<NDArray>> theirs = {arrays(1), arrays(2)};
    for (int i = 0; i < 200; ++i) {
      parallel_for(2, [&](int64_t begin, int64_t end) {
        for (int64_t t = begin; t < end; ++t) run.call(theirs[static_cast<size_t>(t)]);
      });
    }
    stop = true;
    plain.join();
    for (const auto& a : theirs) EXPECT_EQ(differs_from_interpreter({args.back()}, args, a), "");
  });
}

TEST(NetworkKernel, CallsFromAParallelRegionAndBesideIt) {
  const Wide w;
  call_from_a_region_and_beside(Network({w.y}).build(w.args()), w.args());
  // A kernel prepares its constants at the first call: that is no time to hold a lock either.
  call_from_a_region_and_beside(build(create_schedule({w.y}), w.args()), w.args());
}

TEST(NetworkKernel, BuildingLeavesTheThreadPoolAlone) {
  const Wide w;
  const Network net({w.y});
  ASSERT_EQ(net.tasks().size(), 2u);
  must_end([&] {
    std::atomic<bool> built{false}, begun{false};
    std::thread region([&] {
      const ScopedThreads threads(2);
      parallel_for(2, [&](int64_t, int64_t) {
        begun = true;
        while (!built) std::this_thread::yield();
      });
    });
    while (!begun) std::this_thread::yield();
    const ScopedThreads threads(2);
    const NetworkKernel run = net.build(w.args());
    built = true;
    region.join();
    const std::vector<NDArray> arrays = arrays_for(w.args());
    run.call(arrays);
    EXPECT_EQ(differs_from_interpreter({w.y}, w.args(), arrays), "");
  });
}

}  // namespace
}  // namespace heddle::testing
