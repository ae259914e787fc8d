// Calls of a network in streams that the caller captures into graphs of its own.
#include "runtime/cuda/device_calls.h"

#include <gmock/gmock.h>

#include "heddle/support/error.h"
#include "runtime/cuda/capture.h"
#include "runtime/cuda/captured_by_caller.h"
#include "runtime/cuda/executable.h"
#include "runtime/cuda/launch_record.h"

namespace heddle::cuda {
namespace {

using testing::HasSubstr;

constexpr int kN = 8;

float* floats(void* p) { return static_cast<float*>(p); }

class CapturedByCaller : public testing::Test {
 protected:
  CapturedByCaller() {
    // y = x + 1, by a kernel whose ticket must be zero.
    driver_.kernels["next"] = {3, [this](std::vector<void*> p) {
                                 dirty_ += floats(p[2])[0] != 0;
                                 ticket_ = p[2];
                                 for (int i = 0; i < kN; ++i) floats(p[1])[i] = floats(p[0])[i] + 1;
                               }};
    auto program = std::make_shared<Program>();
    program->arch = "sm_90a";
    program->cubin = "a cubin";
    program->workspaces = {{256, true}};
    program->launches = {{"next", {1, 1, 1}, {32, 1, 1}, 0, 1, {0, 1, 2}}};
    kernel_ = std::make_unique<Executable>(program, "next", 2, 0);
    kernel_->load(0);
  }

  void call(api::StreamHandle stream) {
    const StreamScope scope(Stream::wrap(stream));
    const std::vector<NDArray> arrays{x_, y_};
    calls_.call(args_, arrays, [&](std::span<const NDArray> given) {
      void* buffers[] = {given[0].data(), given[1].data()};
      kernel_->run(0, buffers);
    });
  }
  double answer(double x, auto&& run) {
    x_.fill(x);
    y_.fill(-1);
    run();
    return y_.to_host().get(kN - 1);
  }

  int dirty_ = 0;
  void* ticket_ = nullptr;
  FakeDriver driver_;
  ScopedDriver scope_{&driver_.api()};
  const std::vector<KernelArg> args_{{"x", f32, {kN}}, {"y", f32, {kN}, true}};
  NDArray x_ = NDArray::zeros({kN}, f32, Device::cuda()), y_ = x_.copy();
  std::unique_ptr<Executable> kernel_;
  DeviceCalls calls_;
};

TEST_F(CapturedByCaller, TheFirstCallIsPartOfTheGraph) {
  CallersStream stream(driver_.api());
  const api::GraphExec graph = stream.capture([&] { call(stream.handle()); });
  EXPECT_TRUE(driver_.launches.empty());
  for (const double x : {1, 2}) EXPECT_EQ(answer(x, [&] { stream.launch(graph); }), x + 1);
  EXPECT_EQ(dirty_, 0);
}

TEST_F(CapturedByCaller, CallsOfOtherStreamsMayComeBeforeAndAfter) {
  CallersStream one(driver_.api()), two(driver_.api());
  EXPECT_EQ(answer(1, [&] { call(one.handle()); }), 2);
  const int launched = driver_.calls["graph_launch"];
  // The second call with these arrays would be a graph of its own.
  const api::GraphExec graph = two.capture([&] { call(two.handle()); });
  EXPECT_EQ(driver_.calls["graph_launch"], launched);
  EXPECT_EQ(driver_.launches.size(), 1U);
  for (const double x : {2, 3}) EXPECT_EQ(answer(x, [&] { two.launch(graph); }), x + 1);
  for (const double x : {4, 5, 6}) EXPECT_EQ(answer(x, [&] { call(one.handle()); }), x + 1);
  EXPECT_EQ(answer(7, [&] { two.launch(graph); }), 8);
  EXPECT_EQ(dirty_, 0);
}

TEST_F(CapturedByCaller, GraphsOutliveTheStreamsInWhichTheyRan) {
  {
    CallersStream stream(driver_.api());
    for (const double x : {1, 2, 3}) EXPECT_EQ(answer(x, [&] { call(stream.handle()); }), x + 1);
    EXPECT_GT(driver_.calls["graph_launch"], 0);
  }
  const int waits = driver_.calls["event_synchronize"];
  calls_.forget();
  EXPECT_EQ(driver_.uses_of_gone_streams, 0);
  EXPECT_GT(driver_.calls["event_synchronize"], waits);
}

// The driver does not say of the default stream whether it is captured while another one is.
TEST_F(CapturedByCaller, CallsInTheDefaultStreamRunMeanwhile) {
  CallersStream stream(driver_.api());
  (void)stream.capture([&] {
    call(nullptr);
    EXPECT_EQ(driver_.launches.size(), 1U);
    call(stream.handle());
    EXPECT_EQ(driver_.launches.size(), 1U);
  });
}

TEST_F(CapturedByCaller, WorkspacesAreNoBlocksThatTheStreamMayStillUse) {
  CallersStream stream(driver_.api());
  const void* freed = nullptr;
  {
    const StreamScope scope(Stream::wrap(stream.handle()));
    freed = NDArray::empty({256}, u8, Device::cuda()).data();
  }
  const api::GraphExec graph = stream.capture([&] { call(stream.handle()); });
  stream.launch(graph);
  EXPECT_NE(ticket_, freed);
  EXPECT_EQ(dirty_, 0);
}

TEST_F(CapturedByCaller, CopiesFromTheCpuAreRefusedByName) {
  CallersStream stream(driver_.api());
  std::string message;
  (void)stream.capture([&] {
    const StreamScope scope(Stream::wrap(stream.handle()));
    try {
      (void)y_.copy_from(NDArray::zeros({kN}, f32));
    } catch (const Error& error) {
      message = error.message + error.help;
    }
  });
  EXPECT_THAT(message, HasSubstr("a copy from the CPU cannot be captured into a CUDA graph"));
  EXPECT_THAT(message, HasSubstr("before or after the capture"));
}

/// y[0, n) = x[0, n) + 1 by two kernels, of which one takes n and has n blocks.
class CallsOfSizes : public testing::Test {
 protected:
  CallsOfSizes() {
    driver_.kernels["copy"] = {2, [](std::vector<void*> p) {
                                 for (int i = 0; i < kN; ++i) floats(p[1])[i] = floats(p[0])[i];
                               }};
    driver_.kernels["next"] = {.buffers = 1,
                               .body =
                                   [](std::vector<void*> p) {
                                     const auto n = reinterpret_cast<intptr_t>(p[1]);
                                     for (intptr_t i = 0; i < n; ++i) floats(p[0])[i] += 1;
                                   },
                               .sizes = 1};
    auto program = std::make_shared<Program>();
    program->arch = "sm_90a";
    program->cubin = "a cubin";
    program->launches = {{"copy", {1, 1, 1}, {32, 1, 1}, 0, 1, {0, 1}},
                         {"next", {1, 1, 1}, {32, 1, 1}, 0, 1, {1}}};
    program->launches[1].sizes = {0};
    program->launches[1].grid_of[0].items = {{SizeExpr::Op::Size, 0}};
    kernel_ = std::make_unique<Executable>(program, "next", 2, 0);
  }

  /// Arrays of these sizes, at addresses that stay.
  std::vector<NDArray> arrays(int64_t n) const {
    return {NDArray::wrap(x_.data(), {n}, f32, Device::cuda()), y_};
  }
  auto run(int64_t n) {
    return [this, n](std::span<const NDArray> given) {
      ++recorded_;
      void* buffers[] = {given[0].data(), given[1].data()};
      kernel_->run(0, buffers, std::array{n});
    };
  }
  void expect(DeviceCalls& calls, int64_t n) {
    const auto likely = run(n);
    calls.expect(args_, arrays(n), likely);
  }
  /// The sum of y after a call with n, from x = 0.
  double sum(DeviceCalls& calls, int64_t n) {
    const auto now = run(n);
    calls.call(args_, arrays(n), now);
    const NDArray y = y_.to_host();
    double all = 0;
    for (int i = 0; i < kN; ++i) all += y.get(i);
    return all;
  }

  FakeDriver driver_;
  api::Api api_ = driver_.api();
  std::unique_ptr<ScopedDriver> scope_ = std::make_unique<ScopedDriver>(&api_);
  const std::vector<KernelArg> args_{
      {.name = "x", .dtype = f32, .shape = {kN}, .symbolic = {{0, 0, {{0, 1}}}}},
      {.name = "y", .dtype = f32, .shape = {kN}, .output = true}};
  NDArray x_ = NDArray::zeros({kN}, f32, Device::cuda()), y_ = x_.copy();
  std::unique_ptr<Executable> kernel_;
  int recorded_ = 0;
};

TEST_F(CallsOfSizes, ThatDoNotComeAgainAreLaunchesOfOneGraph) {
  DeviceCalls calls;
  EXPECT_EQ(sum(calls, 1), 1);
  EXPECT_EQ(driver_.calls["graph_launch"], 0);
  for (const int64_t n : {2, 3, 5, 4, 8}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  EXPECT_EQ(driver_.calls["graph_launch"], 5);
  EXPECT_EQ(driver_.calls["graph_instantiate"], 1);
  EXPECT_EQ(driver_.calls["kernel_node_set"], 4);  // of the kernel that takes n, from 3 on
  EXPECT_EQ(driver_.launches.back().grid[0], 8U);
  // Those that come again have graphs of their own.
  for (const int64_t n : {3, 3, 8, 8}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  EXPECT_EQ(driver_.calls["kernel_node_set"], 4);
  EXPECT_EQ(driver_.calls["graph_instantiate"], 3);
  EXPECT_EQ(sum(calls, 7), 7);
  calls.forget();
  EXPECT_EQ(sum(calls, 6), 6);
}

TEST_F(CallsOfSizes, AreSingleLaunchesWhereTheDriverCannotUpdateGraphs) {
  api_.kernel_node_set = nullptr;
  DeviceCalls calls;
  for (const int64_t n : {1, 2, 3}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  EXPECT_EQ(driver_.calls["graph_launch"], 0);
}

TEST_F(CallsOfSizes, AreSingleLaunchesWhereNodesOfAGraphAreUnknown) {
  driver_.failing["kernel_node_get"] = 1;
  DeviceCalls calls;
  for (const int64_t n : {1, 2, 3}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  EXPECT_EQ(driver_.calls["graph_launch"], 0);
}

TEST_F(CallsOfSizes, AreSingleLaunchesFromThenOnWhereTheDriverRefusesAnUpdate) {
  DeviceCalls calls;
  for (const int64_t n : {1, 2, 3}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  EXPECT_EQ(driver_.calls["graph_launch"], 2);
  driver_.failing["kernel_node_set"] = 1;
  for (const int64_t n : {4, 5, 6}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  EXPECT_EQ(driver_.calls["graph_launch"], 2);
}

TEST_F(CallsOfSizes, AnErrorOfACallLeavesNoRecordBehind) {
  DeviceCalls calls;
  EXPECT_THROW(calls.call(args_, std::vector<NDArray>{x_, y_},
                          [](std::span<const NDArray>) { throw_runtime_error("an error"); }),
               Error);
  EXPECT_EQ(record_of(0), nullptr);
  EXPECT_EQ(sum(calls, 2), 2);
}

TEST_F(CallsOfSizes, ThatAreExpectedAreTheLaunchOfAGraph) {
  DeviceCalls calls;
  for (const int64_t n : {1, 2}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  for (const int64_t n : {3, 5, 4, 8}) {
    expect(calls, n);
    const std::map<std::string, int> before = driver_.calls;
    const int recorded = recorded_;
    const auto now = run(n);
    calls.call(args_, arrays(n), now);
    EXPECT_EQ(recorded_, recorded);
    for (const char* const made : {"kernel_node_set", "launch_kernel", "graph_instantiate"})
      EXPECT_EQ(driver_.calls[made], before.at(made)) << made;
    EXPECT_EQ(driver_.calls["graph_launch"], before.at("graph_launch") + 1);
    // What was announced is for one call: the next with the same sizes has a graph of its own.
    EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  }
  EXPECT_EQ(driver_.calls["kernel_node_set"], 4);
}

TEST_F(CallsOfSizes, MayComeInThePlaceOfThoseThatAreExpected) {
  for (const bool late : {false, true}) {
    driver_.late = late;
    DeviceCalls calls;
    // One is announced before any call, before the second, and before those of other sizes.
    int64_t likely = 6;
    for (const int64_t n : {1, 2, 3, 5, 3, 8, 4}) {
      expect(calls, likely);
      if (n == 5) expect(calls, likely = 7);
      EXPECT_EQ(sum(calls, n), static_cast<double>(n)) << "instead of " << likely;
    }
    // It may still come later, and after all was forgotten.
    EXPECT_EQ(sum(calls, 7), 7);
    expect(calls, 6);
    calls.forget();
    EXPECT_EQ(sum(calls, 6), 6);
  }
}

TEST_F(CallsOfSizes, AreExpectedWhileTheGraphRuns) {
  driver_.late = true;
  DeviceCalls calls;
  for (const int64_t n : {1, 2}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  const auto now = run(3);
  calls.call(args_, arrays(3), now);
  const size_t launched = driver_.launches.size();
  expect(calls, 8);
  EXPECT_EQ(driver_.launches.size(), launched);  // nothing waited
  EXPECT_EQ(y_.to_host().get(2), 1);
  EXPECT_EQ(y_.to_host().get(3), 0);
  EXPECT_EQ(sum(calls, 8), 8);
}

TEST_F(CallsOfSizes, OfAnotherStreamAreNotThoseThatAreExpected) {
  DeviceCalls calls;
  for (const int64_t n : {1, 2}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  expect(calls, 3);
  const int recorded = recorded_;
  const StreamScope scope(Stream(0));
  EXPECT_EQ(sum(calls, 3), 3);
  EXPECT_EQ(recorded_, recorded + 1);
}

TEST_F(CallsOfSizes, AreNotExpectedWhereTheyAreNoGraphs) {
  DeviceCalls none(0), calls;
  expect(none, 3);
  (void)capture([&] { expect(calls, 3); }, 0);
  const std::vector<NDArray> of_cpu{NDArray::zeros({3}, f32), NDArray::zeros({kN}, f32)};
  const auto likely = run(3);
  calls.expect(args_, of_cpu, likely);
  calls.expect({}, {}, likely);
  EXPECT_EQ(recorded_, 0);
}

// The graph that is refused has values of two calls.
TEST_F(CallsOfSizes, AreRightAfterARefusedUpdateOfThoseThatAreExpected) {
  static api::KernelNodeSet real;
  static int good;
  real = api_.kernel_node_set;
  api_.kernel_node_set = [](api::GraphExec exec, api::GraphNode node,
                            const api::KernelNodeParams* params) {
    return good-- > 0 ? real(exec, node, params) : api::Result{1};
  };
  DeviceCalls calls;
  for (const int64_t n : {1, 2}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
  const NDArray ones = NDArray::full({kN}, f32, 1, Device::cuda()), zeros = std::exchange(x_, ones);
  good = 1;
  expect(calls, 3);
  x_ = zeros;
  good = 100;
  for (const int64_t n : {3, 4, 5}) EXPECT_EQ(sum(calls, n), static_cast<double>(n));
}

TEST_F(CallsOfSizes, ThatAreExpectedKeepWhatTheyRead) {
  DeviceCalls calls;
  auto owner = std::make_shared<int>(1);
  const auto likely = [&](std::span<const NDArray>) { keep_for_launches(0, owner); };
  calls.expect(args_, arrays(3), likely);
  EXPECT_EQ(owner.use_count(), 2);
  calls.forget();
  EXPECT_EQ(owner.use_count(), 1);
}

}  // namespace
}  // namespace heddle::cuda
