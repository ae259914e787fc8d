// Kernels whose code is a cuda::Program, and their timing.
#include "heddle/runtime/kernel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "heddle/runtime/cuda.h"
#include "heddle/runtime/cuda_timing.h"
#include "heddle/support/error.h"
#include "runtime/cuda/cuda_program.h"
#include "runtime/cuda/fake_driver.h"
#include "runtime/cuda/one_call.h"
#include "runtime/cuda/program_json.h"
#include "runtime/program/program.h"

namespace heddle::cuda {
namespace {

using testing::HasSubstr;

constexpr int kN = 8;

float* floats(void* p) { return static_cast<float*>(p); }

template <typename F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::Internal, "no error"};
}

class CudaKernel : public testing::Test {
 protected:
  CudaKernel() {
    // y = x + w' in two launches through a workspace, w' = 2 w prepared once. The workspace's
    // ticket must be zero, and is left so.
    driver_.kernels["pack"] = {2, [this](std::vector<void*> p) {
                                 ++packed_;
                                 for (int i = 0; i < kN; ++i) {
                                   floats(p[1])[i] = 2 * floats(p[0])[i];
                                 }
                               }};
    driver_.kernels["first"] = {3, [this](std::vector<void*> p) {
                                  dirty_ += floats(p[2])[0] != 0;
                                  workspace_ = p[1];
                                  for (int i = 0; i < kN; ++i) floats(p[1])[i] = floats(p[0])[i];
                                }};
    driver_.kernels["second"] = {3, [](std::vector<void*> p) {
                                   for (int i = 0; i < kN; ++i) {
                                     floats(p[0])[i] = floats(p[1])[i] + floats(p[2])[i];
                                   }
                                 }};
  }

  Kernel make() const {
    auto program = std::make_shared<Program>();
    program->arch = "sm_90a";
    program->cubin = "a cubin";
    program->workspaces = {{kN * 4, false}, {256, true}};
    program->prepare = {{"pack", {1, 1, 1}, {32, 1, 1}, 0, 1, {1, 3}}};
    program->launches = {{"first", {2, 1, 1}, {32, 1, 1}, 64 << 10, 2, {0, 4, 5}},
                         {"second", {1, 1, 1}, {32, 1, 1}, 0, 1, {2, 4, 3}}};
    KernelCode code;
    code.name = "sum";
    code.args = {{"x", f32, {kN}, false, false, false, 16},
                 {"w", f32, {kN}, false, true, false, 16},
                 {"y", f32, {kN}, true, false, false, 16}};
    code.persistent = {{"packed", f32, {kN}}};
    code.cuda = program;
    return Kernel(std::move(code));
  }

  static NDArray gpu(double value) {
    return NDArray::full({kN}, f32, value).to_device(Device::cuda());
  }

  int packed_ = 0, dirty_ = 0;
  void* workspace_ = nullptr;
  FakeDriver driver_;
  ScopedDriver scope_{&driver_.api()};
};

TEST_F(CudaKernel, RunsItsLaunchesInOrder) {
  const Kernel kernel = make();
  EXPECT_NE(kernel.cuda_program(), nullptr);
  EXPECT_EQ(driver_.inits, 0) << "a kernel is loaded when it is called";
  const NDArray x = gpu(1), w = gpu(3), y = gpu(0);
  kernel(x, w, y);
  EXPECT_EQ(max_abs_diff(y, NDArray::full({kN}, f32, 7)), 0);
  ASSERT_EQ(driver_.launches.size(), 3U);
  EXPECT_EQ(driver_.launches[0].kernel, "pack");
  EXPECT_EQ(driver_.launches[1].kernel, "first");
  EXPECT_EQ(driver_.launches[1].cluster, 2U);
  EXPECT_EQ(driver_.launches[1].smem, 64U << 10);
  EXPECT_EQ(driver_.launches[2].kernel, "second");
  EXPECT_EQ(driver_.launches[2].stream, nullptr);
  EXPECT_EQ(dirty_, 0);
}

// TMA's description of a tensor follows the pointers. It is made anew for each address.
TEST_F(CudaKernel, TensorMapsAreMadeFromTheArguments) {
  driver_.kernels["product"] = {.buffers = 1, .body = {}, .maps = 1};
  auto program = std::make_shared<Program>();
  program->arch = "sm_90a";
  program->cubin = "a cubin";
  program->launches = {{"product", {1, 1, 1}, {32, 4, 2}, 0, 1, {1}}};
  program->launches[0].maps = {{.buffer = 0, .shape = {3, 100, 72}, .row_dim = 1, .rows = 64}};
  KernelCode code;
  code.name = "product";
  code.args = {{"x", f16, {3, 100, 72}, false, false, false, 16},
               {"y", f32, {kN}, true, false, false, 16}};
  code.cuda = program;
  const Kernel kernel(std::move(code));
  const NDArray x = NDArray::zeros({3, 100, 72}, f16).to_device(Device::cuda()), y = gpu(0);
  const NDArray other = NDArray::zeros({3, 100, 72}, f16).to_device(Device::cuda());
  kernel(x, y);
  kernel(other, y);
  ASSERT_EQ(driver_.launches.size(), 2U);
  ASSERT_EQ(driver_.launches[0].maps.size(), 1U);
  const FakeDriver::Map& map = driver_.launches[0].maps[0];
  EXPECT_EQ(map.address, x.data());
  EXPECT_EQ(driver_.launches[1].maps[0].address, other.data());
  EXPECT_THAT(map.extents, testing::ElementsAre(72, 100, 3));
  EXPECT_THAT(map.strides, testing::ElementsAre(144, 14400));
  EXPECT_THAT(map.box, testing::ElementsAre(64, 64, 1));
  EXPECT_EQ(map.type, api::kTensorMapUint16);
  EXPECT_EQ(map.swizzle, api::kSwizzle128);
}

// Rows of boxes are 128 bytes of any type. f32 is rounded to tf32 on the way.
TEST_F(CudaKernel, TensorMapsHaveTheTypeOfTheElements) {
  driver_.kernels["product"] = {.buffers = 1, .body = {}, .maps = 1};
  for (const auto& [element, type] : {std::pair{i8, api::kTensorMapUint8},
                                      {f16, api::kTensorMapUint16},
                                      {f32, api::kTensorMapTf32}}) {
    auto program = std::make_shared<Program>();
    program->arch = "sm_90a";
    program->cubin = "a cubin of " + to_string(element);
    program->launches = {{"product", {1, 1, 1}, {32, 4, 2}, 0, 1, {1}}};
    program->launches[0].maps = {{.buffer = 0,
                                  .element_bytes = element.bytes(),
                                  .shape = {100, 144},
                                  .row_dim = 0,
                                  .rows = 64}};
    KernelCode code;
    code.name = "product";
    code.args = {{"x", element, {100, 144}, false, false, false, 16},
                 {"y", f32, {kN}, true, false, false, 16}};
    code.cuda = program;
    driver_.launches.clear();
    Kernel(std::move(code))(NDArray::zeros({100, 144}, element).to_device(Device::cuda()), gpu(0));
    ASSERT_EQ(driver_.launches.size(), 1U);
    const FakeDriver::Map& map = driver_.launches[0].maps.at(0);
    EXPECT_EQ(map.type, type);
    EXPECT_EQ(map.box[0], 128 / element.bytes());
  }
}

// A launch may begin before the one before it has ended, where driver and device can do that. The first one of a call
// does not: what comes before the call may write the constants that kernels load ahead.
class OverlappingLaunches : public CudaKernel {
 protected:
  Kernel copies(int major) {
    driver_.device.major = major;
    driver_.kernels["copy"] = {.buffers = 2, .body = {}};
    auto program = std::make_shared<Program>();
    program->arch = "sm_80";
    program->cubin = "copy";
    program->launches.push_back({"copy", {1, 1, 1}, {32, 1, 1}, 0, 1, {0, 1}});
    program->launches[0].overlaps = true;
    program->launches.push_back(program->launches[0]);
    KernelCode code;
    code.name = "copy";
    code.args = {{"x", f32, {kN}, false, false, false, 16},
                 {"y", f32, {kN}, true, false, false, 16}};
    code.cuda = program;
    driver_.launches.clear();
    return Kernel(std::move(code));
  }
  /// Whether the launches since the last time overlap.
  std::vector<bool> overlaps() {
    std::vector<bool> made;
    for (const FakeDriver::Call& call : driver_.launches) made.push_back(call.overlaps);
    driver_.launches.clear();
    return made;
  }
};

TEST_F(OverlappingLaunches, OnHopper) {
  const Kernel kernel = copies(9);
  const NDArray x = gpu(1), y = gpu(0);
  for (int call = 0; call < 3; ++call) {
    kernel(x, y);
    EXPECT_THAT(overlaps(), testing::ElementsAre(false, true)) << "call " << call;
  }
}

TEST_F(OverlappingLaunches, NotBefore) {
  copies(8)(gpu(1), gpu(0));
  EXPECT_THAT(overlaps(), testing::ElementsAre(false, false));
}

TEST_F(OverlappingLaunches, AllButTheFirstOfAProgram) {
  const Kernel kernel = copies(9);
  for (const std::size_t graphs : {0, 4}) {
    ProgramParts parts{.name = "two", .args = kernel.args(), .graphs = graphs};
    for (int step = 0; step < 2; ++step) {
      parts.steps.push_back({"copy", {}, {}});
      parts.steps.back().variants.push_back(
          {kernel, {{ProgramPlace::Argument, 0}, {ProgramPlace::Argument, 1}}});
    }
    heddle::Program program(std::move(parts));
    const std::vector<NDArray> arrays{gpu(1), gpu(0)};
    for (int call = 0; call < 3; ++call) {
      program.call(arrays);
      EXPECT_THAT(overlaps(), testing::ElementsAre(false, true, true, true))
          << graphs << " graphs, call " << call;
    }
  }
}

// A kernel of a captured graph may write what the next call of the graph reads.
TEST_F(OverlappingLaunches, AllButTheFirstOfEachCallOfAGraph) {
  const Kernel kernel = copies(9);
  const NDArray x = gpu(1), y = gpu(0);
  const Graph graph = capture([&] {
    kernel(x, y);
    kernel(x, y);
  });
  EXPECT_THAT(overlaps(), testing::IsEmpty());
  for (int replay = 0; replay < 2; ++replay) {
    graph.launch();
    EXPECT_THAT(overlaps(), testing::ElementsAre(false, true, false, true));
  }
  // And the first call outside of it is no later one.
  kernel(x, y);
  EXPECT_THAT(overlaps(), testing::ElementsAre(false, true));
}

// What is prepared within a call is no launch of it.
TEST_F(OverlappingLaunches, NotTheFirstBehindAPreparation) {
  (void)copies(9);
  KernelCode code;
  auto program = std::make_shared<Program>();
  program->arch = "sm_90a";
  program->cubin = "copy pack";
  program->prepare.push_back({"pack", {1, 1, 1}, {32, 1, 1}, 0, 1, {1, 3}});
  program->launches.push_back({"copy", {1, 1, 1}, {32, 1, 1}, 0, 1, {3, 2}});
  program->launches[0].overlaps = true;
  code.name = "prepared";
  code.args = {{"x", f32, {kN}, false, false, false, 16},
               {"w", f32, {kN}, false, true, false, 16},
               {"y", f32, {kN}, true, false, false, 16}};
  code.persistent = {{"packed", f32, {kN}}};
  code.cuda = program;
  const OneCall one;
  Kernel(std::move(code))(gpu(1), gpu(3), gpu(0));
  ASSERT_EQ(driver_.launches.size(), 2U);
  EXPECT_EQ(driver_.launches[1].kernel, "copy");
  EXPECT_FALSE(driver_.launches[1].overlaps);
}

// Windows of an image: corners are counted from both ends of each dimension, innermost first.
TEST_F(CudaKernel, MapsOfWindowsTellWhereTheWindowsBegin) {
  driver_.kernels["windows"] = {.buffers = 1, .body = {}, .maps = 1};
  auto program = std::make_shared<Program>();
  program->arch = "sm_90a";
  program->cubin = "windows";
  program->launches.push_back({"windows", {1, 1, 1}, {32, 1, 1}, 0, 1, {1}});
  // 7 windows of 3, stride 2 and padding 1, along 14 elements; 12 windows of 1 along 12.
  TensorMap map{.buffer = 0, .element_bytes = 2, .shape = {2, 14, 12, 64}, .rows = 128};
  map.windows = {{7, 2, -1}, {12, 1, 0}};
  program->launches[0].maps = {map};
  KernelCode code;
  code.name = "windows";
  code.args = {{"x", f16, {2, 14, 12, 64}, false, false, false, 16},
               {"y", f32, {kN}, true, false, false, 16}};
  code.cuda = program;
  driver_.launches.clear();
  Kernel(std::move(code))(NDArray::zeros({2, 14, 12, 64}, f16).to_device(Device::cuda()), gpu(0));
  ASSERT_EQ(driver_.launches.size(), 1U);
  const FakeDriver::Map& made = driver_.launches[0].maps.at(0);
  EXPECT_EQ(made.box, (std::vector<unsigned>{64, 128}));
  EXPECT_EQ(made.lower, (std::vector<int>{0, -1}));
  EXPECT_EQ(made.upper, (std::vector<int>{0, -2}));
  EXPECT_EQ(made.steps, (std::vector<unsigned>{1, 1, 2, 1}));
}

TEST_F(CudaKernel, ASecondCallOnlyLaunches) {
  const Kernel kernel = make();
  const NDArray x = gpu(1), w = gpu(3), y = gpu(0);
  kernel(x, w, y);
  driver_.calls.clear();
  kernel(x, w, y);
  std::map<std::string, int> calls = driver_.calls;
  calls.erase("ctx_get_current");
  EXPECT_EQ(calls, (std::map<std::string, int>{{"launch_kernel", 1}, {"launch_kernel_ex", 1}}));
  EXPECT_EQ(packed_, 1);
  kernel.refresh();
  kernel(x, w, y);
  EXPECT_EQ(packed_, 2);
  const NDArray other = gpu(5);
  kernel(x, other, y);
  EXPECT_EQ(packed_, 3);
  EXPECT_EQ(y.to_host().get(0), 11);
  kernel.clone()(x, w, y);
  EXPECT_EQ(packed_, 4);
  EXPECT_EQ(driver_.modules, 1) << "a clone shares the code";
}

TEST_F(CudaKernel, EachStreamHasItsWorkspaces) {
  const Kernel kernel = make();
  const NDArray x = gpu(1), w = gpu(3), y = gpu(0);
  kernel(x, w, y);
  const void* first = workspace_;
  const Stream stream;
  {
    const StreamScope scope(stream);
    kernel(x, w, y);
  }
  EXPECT_NE(workspace_, first);
  EXPECT_EQ(driver_.launches.back().stream, stream.handle());
  kernel(x, w, y);
  EXPECT_EQ(workspace_, first);
  EXPECT_EQ(dirty_, 0);
}

TEST_F(CudaKernel, ArraysOfTheCpuAreCopiedThereAndBack) {
  const Kernel kernel = make();
  const NDArray x = NDArray::full({kN}, f32, 1), w = NDArray::full({kN}, f32, 3);
  NDArray y = NDArray::zeros({kN}, f32);
  kernel(x, w, y);
  EXPECT_EQ(y.get(kN - 1), 7);
  x.fill(2);
  kernel(x, w, y);
  EXPECT_EQ(y.get(0), 8);
  EXPECT_EQ(packed_, 1) << "constants are prepared once for the same arrays of the CPU, too";
  w.fill(4);
  kernel.refresh();
  kernel(x, w, y);
  EXPECT_EQ(y.get(0), 10);
  // A call of the same weights on the GPU is another set.
  const NDArray there = gpu(0);
  kernel(gpu(2), gpu(1), there);
  EXPECT_EQ(there.to_host().get(0), 4);
}

TEST_F(CudaKernel, ResultsOfTheCpuKeepWhatACallDoesNotWrite) {
  driver_.kernels["half"] = {2, [](std::vector<void*> p) {
                               for (int i = 0; i < kN; i += 2) floats(p[1])[i] = floats(p[0])[i];
                             }};
  auto program = std::make_shared<Program>();
  program->arch = "sm_90a";
  program->cubin = "a cubin";
  program->launches = {{"half", {1, 1, 1}, {32, 1, 1}, 0, 1, {0, 1}}};
  program->in_part = {1};
  EXPECT_EQ(program_from_json(to_json(*program)).in_part, program->in_part);
  KernelCode code;
  code.name = "half";
  code.args = {{"x", f32, {kN}}, {"y", f32, {kN}, true}};
  code.cuda = program;
  const Kernel kernel(std::move(code));
  const NDArray x = NDArray::full({kN}, f32, 1);
  for (const Kernel& k : {kernel, kernel.clone()}) {
    for (const double before : {5, 6}) {
      const NDArray y = NDArray::full({kN}, f32, before);
      k(x, y);
      EXPECT_EQ(y.get(0), 1);
      EXPECT_EQ(y.get(1), before);
    }
  }
  heddle::Program family(one_step({kernel, kernel.clone()}));
  for (const double before : {5, 6}) {
    const NDArray y = NDArray::full({kN}, f32, before);
    family.call(std::vector<NDArray>{x, y});
    EXPECT_EQ(y.get(0), 1);
    EXPECT_EQ(y.get(1), before);
  }
}

TEST_F(CudaKernel, OtherConstantsOfTheCpuAreNotTakenForTheLast) {
  const Kernel kernel = make();
  const NDArray x = NDArray::full({kN}, f32, 1), y = NDArray::zeros({kN}, f32);
  const NDArray three = NDArray::full({kN}, f32, 3), five = NDArray::full({kN}, f32, 5);
  for (const NDArray& w : {three, five, five, three}) {
    kernel(x, w, y);
    EXPECT_EQ(y.get(0), 1 + 2 * w.get(0));
  }
}

TEST_F(CudaKernel, WrongArraysAreNamed) {
  const Kernel kernel = make();
  const NDArray x = gpu(1), w = gpu(3), y = gpu(0);
  EXPECT_THAT(error_of([&] { kernel(x, NDArray::zeros({kN}, f32), y); }).message,
              HasSubstr("argument 1 ('w') of kernel 'sum' is on cpu, but argument 0 ('x') is on "
                        "cuda:0"));
  EXPECT_THAT(error_of([&] { kernel(x, w, x); }).message, HasSubstr("overlap in memory"));
  const NDArray odd = NDArray::zeros({2, kN + 1}, f32, Device::cuda());
  const NDArray shifted =
      NDArray::wrap(static_cast<float*>(odd.data()) + 1, {kN}, f32, Device::cuda());
  const Error error = error_of([&] { kernel(shifted, w, y); });
  EXPECT_THAT(error.message, HasSubstr("argument 0 ('x') of kernel 'sum' is not aligned to 16"));
  EXPECT_THAT(error.help, HasSubstr("copy()"));

  KernelCode on_cpu;
  on_cpu.name = "cpu";
  on_cpu.args = {{"x", f32, {kN}}};
  on_cpu.main = [](void* const*) { return 0; };
  EXPECT_THAT(error_of([&] { Kernel{on_cpu}(x); }).message,
              HasSubstr("argument 0 ('x') of kernel 'cpu' is on cuda:0, and the kernel runs on the "
                        "CPU"));
}

TEST_F(CudaKernel, ProgramsThatContradictThemselvesAreRefused) {
  KernelCode code;
  code.name = "bad";
  code.args = {{"x", f32, {kN}}};
  auto with = [&](Launch launch) {
    auto program = std::make_shared<Program>();
    program->launches = {std::move(launch)};
    code.cuda = program;
    return error_of([&] { Kernel{code}; });
  };
  EXPECT_THAT(with({"k", {1, 1, 1}, {1, 1, 1}, 0, 1, {1}}).message, HasSubstr("buffer 1 of 1"));
  EXPECT_THAT(with({"k", {0, 1, 1}, {1, 1, 1}, 0, 1, {0}}).message, HasSubstr("no blocks"));
  EXPECT_THAT(with({"k", {3, 1, 1}, {1, 1, 1}, 0, 2, {0}}).message, HasSubstr("cluster"));
  code.cuda = std::make_shared<Program>();  // of a declaration without elements
  EXPECT_EQ(error_of([&] { Kernel{code}; }).message, "no error");
}

TEST_F(CudaKernel, MoreThanSixtyFourArguments) {
  constexpr std::size_t kMany = 100;
  driver_.kernels["many"] = {kMany, [](std::vector<void*> p) {
                               for (std::size_t i = 1; i < kMany; ++i) {
                                 floats(p[0])[0] += floats(p[i])[0];
                               }
                             }};
  KernelCode code;
  code.name = "many";
  auto program = std::make_shared<Program>();
  program->cubin = "a cubin";
  program->launches = {{"many", {1, 1, 1}, {1, 1, 1}, 0, 1, {}}};
  std::vector<NDArray> arrays;
  for (std::size_t i = 0; i < kMany; ++i) {
    code.args.push_back({"a", f32, {kN}, i == 0});
    program->launches[0].buffers.push_back(static_cast<int>(i));
    arrays.push_back(gpu(1));
  }
  code.cuda = program;
  Kernel(code).call(arrays);
  EXPECT_EQ(arrays[0].to_host().get(0), kMany);
}

TEST_F(CudaKernel, AGraphOfCallsKeepsWhatItUses) {
  const Kernel kernel = make();
  NDArray x = gpu(1), w = gpu(3);
  const NDArray y = gpu(0), z = gpu(0);
  const Graph graph = capture([&] {
    kernel(x, w, y);
    kernel(y, w, z);
  });
  EXPECT_EQ(graph.size(), 4U) << "preparation is no part of it";
  EXPECT_EQ(packed_, 1);
  EXPECT_EQ(dirty_, 0);
  const void* memory = x.data();
  x = NDArray();
  w = NDArray();
  for (int i = 0; i < 3; ++i) EXPECT_NE(gpu(100).data(), memory) << "the graph's array was reused";
  graph.launch();
  EXPECT_EQ(y.to_host().get(0), 7);
  EXPECT_EQ(z.to_host().get(0), 13);
  EXPECT_EQ(dirty_, 0);
}

TEST_F(CudaKernel, ManyThreadsCallAtOnce) {
  const Kernel kernel = make();
  // The fake driver has no locks of its own: only what the kernel does before its launches is
  // shared.
  const NDArray x = gpu(1), w = gpu(3), y = gpu(0);
  kernel(x, w, y);
  std::vector<std::thread> threads;
  std::atomic<int> failed{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) {
        try {
          kernel.prepare(std::vector<NDArray>{x, w, y});
        } catch (const Error&) {
          ++failed;
        }
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(packed_, 1);
}

// ---- timing
// --------------------------------------------------------------------------------------

TEST_F(CudaKernel, TimingFindsTheTimeOfALaunch) {
  driver_.device.l2_bytes = 1 << 10;
  driver_.kernel_s = 5e-6;  // two launches a call
  const Kernel kernel = make();
  const Timing t = time_kernel(kernel, {gpu(1), gpu(3), gpu(0)});
  ASSERT_TRUE(t.ok()) << t.message;
  EXPECT_NEAR(t.measurement.median_s, 10e-6, 1e-8);
  EXPECT_EQ(t.measurement.samples_s.size(), 20U);
  EXPECT_TRUE(t.cold);
  EXPECT_EQ(t.set_bytes, 3 * kN * 4);
  EXPECT_GT(t.sets * t.set_bytes, 2 << 10);
  EXPECT_EQ(t.launches % t.sets, 0);
  EXPECT_EQ(packed_, t.sets) << "each set of weights is packed, once";
}

TEST_F(CudaKernel, WarmTimingUsesTheGivenSets) {
  const Kernel kernel = make();
  TimingOptions warm;
  warm.cold_l2 = false;
  warm.launches = 7;
  warm.samples = 3;
  const Timing t = time_kernel(kernel, {gpu(1), gpu(3), gpu(0)}, warm);
  ASSERT_TRUE(t.ok()) << t.message;
  EXPECT_EQ(t.sets, 1);
  EXPECT_EQ(t.launches, 7);
  EXPECT_FALSE(t.cold);
  EXPECT_EQ(t.measurement.samples_s.size(), 3U);
  // More sets than may be: the result says that L2 was not cold.
  TimingOptions few;
  few.most_sets = 2;
  const Timing limited = time_kernel(kernel, {gpu(1), gpu(3), gpu(0)}, few);
  EXPECT_EQ(limited.sets, 2);
  EXPECT_FALSE(limited.cold);
}

TEST_F(CudaKernel, TimingRotatesOverTheSets) {
  const Kernel kernel = make();
  std::vector<std::vector<NDArray>> sets;
  const NDArray w = gpu(3);
  for (int i = 0; i < 3; ++i) sets.push_back({gpu(i), w, gpu(0)});
  TimingOptions options;
  options.cold_l2 = false;
  options.launches = 3;
  ASSERT_TRUE(time_kernel(kernel, sets, options).ok());
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(sets[static_cast<std::size_t>(i)][2].to_host().get(0), i + 6);
  }
  const std::vector<std::vector<NDArray>> twins =
      rotated_arguments(std::vector<NDArray>{w, w}, 1000, 3);
  ASSERT_EQ(twins.size(), 3U);
  EXPECT_EQ(twins[1][0].data(), twins[1][1].data());
  EXPECT_NE(twins[1][0].data(), w.data());
}

TEST_F(CudaKernel, AKernelThatHangsIsGivenUp) {
  const Kernel kernel = make();
  const std::vector<NDArray> arguments = {gpu(1), gpu(3), gpu(0)};
  kernel.call(arguments);
  driver_.hangs = true;
  TimingOptions options;
  options.deadline_s = 0.02;
  const Timing t = time_kernel(kernel, arguments, options);
  EXPECT_EQ(t.status, Timing::Status::Deadline);
  EXPECT_THAT(t.message, HasSubstr("kernel 'sum' did not end within 0.02"));
  EXPECT_TRUE(context_lost());
}

TEST_F(CudaKernel, AFailureIsReported) {
  const Kernel kernel = make();
  const std::vector<NDArray> arguments = {gpu(1), gpu(3), gpu(0)};
  driver_.failing["launch_kernel_ex"] = 1;
  Timing t = time_kernel(kernel, arguments);
  EXPECT_EQ(t.status, Timing::Status::Failed);
  EXPECT_THAT(t.message, HasSubstr("failed for kernel 'first'"));
  EXPECT_FALSE(context_lost());
  driver_.failing = {{"event_query", 700}};
  t = time_kernel(kernel, arguments);
  EXPECT_EQ(t.status, Timing::Status::Failed);
  EXPECT_THAT(t.message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_TRUE(context_lost());
  EXPECT_EQ(error_of([&] { time_kernel(kernel, {NDArray::zeros({kN}, f32)}); }).kind,
            ErrorKind::User);
}

}  // namespace
}  // namespace heddle::cuda
