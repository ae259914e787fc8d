// Measuring for CUDA without a GPU: real lowering, real machine code and real processes; the
// emulator replaces the device.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <mutex>
#include <thread>

#include "heddle/ops/elementwise.h"
#include "heddle/runtime/cuda.h"
#include "heddle/runtime/timer.h"
#include "measure/cuda/candidate.h"
#include "measure/cuda/gpu_turn.h"
#include "measure/cuda_testing.h"
#include "measure/process/local_measurer.h"
#include "measure/task/device_gather.h"
#include "runtime/cuda/cuda_program.h"
#include "runtime/cuda/fake_driver.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

double spent(const Measurer& m, const std::string& name) {
  for (const auto& [key, seconds] : m.time_spent()) {
    if (key == name) return seconds;
  }
  return 0;
}

TEST(CudaMeasure, EveryCandidateIsReportedOnceWithItsTimes) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const TuneTask task = gpu_matmul();
  const std::vector<Schedule> schedules = gpu_candidates(task, 6);
  {
    const auto measurer = emulated_measurer();
    EXPECT_THAT(measurer->protocol(), StartsWith("cold graph"));
    const Collected got = measure_all(*measurer, task, schedules);
    for (size_t i = 0; i < schedules.size(); ++i) {
      EXPECT_EQ(got.reports[i], 1) << i;
      ASSERT_TRUE(got.results[i].ok()) << i << ": " << got.results[i].message;
      EXPECT_EQ(got.results[i].message, "");
      EXPECT_DOUBLE_EQ(got.results[i].median(), made_up_seconds(schedules[i].to_json()));
      EXPECT_GT(got.results[i].compile_seconds, 0);
    }
    EXPECT_GT(spent(*measurer, "compile (all cores)"), 0);
    EXPECT_GT(spent(*measurer, "reference"), 0);
    EXPECT_TRUE(has_children());
  }
  EXPECT_FALSE(has_children());
}

TEST(CudaMeasure, WhatIsCompiledAheadIsMeasuredNext) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const TuneTask task = gpu_matmul();
  const std::vector<Schedule> all = gpu_candidates(task, 6);
  const auto measurer = emulated_measurer();
  EXPECT_TRUE(measurer->prefetch(task, {}));
  EXPECT_TRUE(measure_all(*measurer, task, {all[0]}).results[0].ok());
  measurer->prefetch(task, std::span(all).subspan(3, 3));
  for (size_t first : {1, 3}) {
    const std::vector<Schedule> batch(
        all.begin() + static_cast<ptrdiff_t>(first),
        all.begin() + static_cast<ptrdiff_t>(first) + (first == 1 ? 2 : 3));
    const Collected got = measure_all(*measurer, task, batch, TuneClock(), 1);
    for (size_t i = 0; i < batch.size(); ++i) {
      EXPECT_EQ(got.reports[i], 1);
      ASSERT_TRUE(got.results[i].ok()) << got.results[i].message;
      EXPECT_DOUBLE_EQ(got.results[i].median(), made_up_seconds(batch[i].to_json()));
    }
  }
}

// As a tuner announces the static choices of all tasks of a network. References are computed while
// other tasks compile.
TEST(CudaMeasure, TasksThatAreAnnouncedTogetherAreMeasuredInAnyOrder) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  std::vector<TuneTask> tasks;
  for (const int64_t rows : {24, 40, 56, 72}) {
    const Tensor a = placeholder({rows, 20}, f32, "A"), b = placeholder({20, 32}, f32, "B");
    tasks.push_back(make_task("matmul of " + std::to_string(rows), {ops::matmul(a, b)}, an_h200()));
  }
  for (const char* misfortune : {"", "no cpu reference"}) {
    const auto measurer = emulated_measurer({}, {}, misfortune);
    for (const TuneTask& t : tasks)
      EXPECT_TRUE(measurer->prefetch(t, std::vector<Schedule>{t.tmpl.static_schedule()}));
    for (const size_t i : {1, 0, 3, 2}) {
      const std::vector<Schedule> batch{tasks[i].tmpl.static_schedule()};
      const Collected got = measure_all(*measurer, tasks[i], batch);
      EXPECT_EQ(got.reports[0], 1);
      ASSERT_TRUE(got.results[0].ok()) << got.results[0].message;
      EXPECT_EQ(got.results[0].message, "");  // it was checked
      EXPECT_DOUBLE_EQ(got.results[0].median(), made_up_seconds(batch[0].to_json()));
    }
  }
}

TEST(CudaMeasure, OneScheduleTwiceInABatch) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const TuneTask task = gpu_matmul();
  std::vector<Schedule> batch = gpu_candidates(task, 2);
  batch.push_back(batch[0]);
  batch.push_back(batch[1]);
  const auto measurer = emulated_measurer();
  const Collected got = measure_all(*measurer, task, batch);
  for (size_t i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(got.reports[i], 1) << i;
    EXPECT_TRUE(got.results[i].ok()) << i << ": " << got.results[i].message;
  }
}

TEST(CudaMeasure, ARaceOfWhatWasMeasuredCompilesNothing) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const TuneTask task = gpu_matmul();
  const std::vector<Schedule> schedules = gpu_candidates(task, 3);
  const auto measurer = emulated_measurer();
  ASSERT_TRUE(measurer->keeps_code());
  measure_all(*measurer, task, {schedules[0], schedules[1]});
  const double compiled = spent(*measurer, "compile (all cores)");
  for (const MeasureResult& r :
       measurer->race(task, std::span(schedules).first(2), 0.05, TuneClock()))
    EXPECT_TRUE(r.ok()) << r.message;
  EXPECT_EQ(spent(*measurer, "compile (all cores)"), compiled);
  measurer->race(task, schedules, 0.05, TuneClock());
  EXPECT_GT(spent(*measurer, "compile (all cores)"), compiled);
}

TEST(CudaMeasure, ItWaitsForItsTurnOnTheGpu) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("heddle_turns_" + std::to_string(::getpid()));
  std::filesystem::create_directories(folder);
  WorkerOptions options;
  options.turns = folder / "turns";
  options.protocol.timeout_seconds = 3;
  const auto measurer = emulated_measurer({}, options);
  const TuneTask task = gpu_matmul();
  auto other = std::make_unique<measuring::GpuTurn>(options.turns, [] {});
  // The other turn lasts longer than a candidate may take.
  std::thread end([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(4500));
    other.reset();
  });
  const Timer timer;
  const Collected got = measure_all(*measurer, task, gpu_candidates(task, 1));
  end.join();
  EXPECT_TRUE(got.results[0].ok()) << got.results[0].message;
  EXPECT_GE(timer.elapsed_s(), 4.4);
  std::filesystem::remove_all(folder);
}

TEST(GpuTurns, ExcludeEachOther) {
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("heddle_turn_" + std::to_string(::getpid()));
  int inside = 0, most = 0, waits = 0;
  std::mutex mutex;
  const auto take = [&] {
    for (int i = 0; i < 20; ++i) {
      const measuring::GpuTurn turn(file, [&] { ++waits; });
      {
        const std::lock_guard lock(mutex);
        most = std::max(most, ++inside);
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      const std::lock_guard lock(mutex);
      --inside;
    }
  };
  std::thread one(take), two(take);
  one.join();
  two.join();
  EXPECT_EQ(most, 1);
  std::filesystem::remove(file);
  const measuring::GpuTurn none("", [] {}), neither("", [] {});
  EXPECT_THROW(measuring::GpuTurn("/no/such/folder/turns", [] {}), Error);
}

TEST(CudaMeasure, ARunnerThatIsLostCostsOneCandidate) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const TuneTask task = gpu_matmul();
  const std::vector<Schedule> schedules = gpu_candidates(task, 6);
  EmulatedDevice::Faults faults;
  faults[schedules[1].to_json().dump()] = Misbehaves::LosesContext;
  faults[schedules[2].to_json().dump()] = Misbehaves::NeverEnds;
  faults[schedules[3].to_json().dump()] = Misbehaves::Dies;
  faults[schedules[4].to_json().dump()] = Misbehaves::Hangs;
  WorkerOptions options;
  options.protocol.timeout_seconds = 4;
  const auto measurer = emulated_measurer(faults, options);
  const Collected got = measure_all(*measurer, task, schedules);
  for (int n : got.reports) EXPECT_EQ(n, 1);
  EXPECT_TRUE(got.results[0].ok()) << got.results[0].message;
  EXPECT_EQ(got.results[1].error, MeasureError::Crash);
  EXPECT_THAT(got.results[1].message, HasSubstr("ILLEGAL_ADDRESS"));
  // Slower than anything known by far, or slower than allowed: it depends on what came before.
  EXPECT_TRUE(got.results[2].cut_off || got.results[2].error == MeasureError::Timeout);
  EXPECT_FALSE(got.results[3].ok());
  EXPECT_EQ(got.results[4].error, MeasureError::Timeout);
  EXPECT_TRUE(got.results[5].ok()) << got.results[5].message;
}

// A process that has run kernels on a GPU can tune for it afterwards, because the workers are other
// programs.
TEST(CudaMeasure, AProcessThatUsesTheGpuTunes) {
  cuda::FakeDriver driver;
  const cuda::ScopedDriver scope(&driver.api());
  ASSERT_TRUE(cuda::available());
  const NDArray on_gpu = NDArray::zeros({16}, f32, Device::cuda());
  ASSERT_TRUE(cuda::initialised());
  const auto measurer = make_cuda_measurer(emulated_options());
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const TuneTask task = gpu_matmul();
  EXPECT_TRUE(measure_all(*measurer, task, gpu_candidates(task, 1)).results[0].ok());
}

TEST(CudaMeasure, AWrongAnswerIsFound) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const TuneTask task = gpu_matmul();
  const auto measurer = emulated_measurer({}, {}, "wrong output");
  const Collected got = measure_all(*measurer, task, gpu_candidates(task, 2));
  EXPECT_TRUE(got.results[0].ok()) << got.results[0].message;
  EXPECT_EQ(got.results[1].error, MeasureError::WrongAnswer);
  const measuring::LocalMeasurer::UncheckedScope unchecked(
      dynamic_cast<measuring::LocalMeasurer&>(*measurer));
  const Collected again = measure_all(*measurer, task, gpu_candidates(task, 2));
  EXPECT_TRUE(again.results[1].ok()) << again.results[1].message;
}

// Once there is a best candidate, only some elements of a large output come from the device.
TEST(CudaMeasure, AWrongElementOfASampleIsFound) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const TuneTask task =
      make_task("relu:96x64", {ops::relu(placeholder({96, 64}, f32, "A"))}, an_h200());
  const std::vector<Schedule> schedules = gpu_candidates(task, 2);
  const auto measurer = emulated_measurer({}, {}, "wrong output");
  constexpr double kBest = 1e-5;  // no candidate is faster
  const Collected got = measure_all(*measurer, task, schedules, TuneClock(), kBest);
  EXPECT_TRUE(got.results[0].ok()) << got.results[0].message;
  EXPECT_EQ(got.results[1].error, MeasureError::WrongAnswer);
  EXPECT_THAT(got.results[1].message, HasSubstr("1 of 1024 sampled elements"));
}

// The fake driver's kernel does what the text says, of which NVRTC makes machine code.
TEST(CudaMeasure, ElementsAreGatheredOnTheDevice) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  cuda::FakeDriver driver;
  driver.kernels["gather"] = {
      3,
      [](std::vector<void*> p) {
        const auto* at = static_cast<const int64_t*>(p[1]);
        const auto bytes = reinterpret_cast<size_t>(p[3]), count = reinterpret_cast<size_t>(p[4]);
        for (size_t i = 0; i < count; ++i)
          std::memcpy(static_cast<char*>(p[2]) + i * bytes,
                      static_cast<char*>(p[0]) + at[i] * int64_t(bytes), bytes);
      },
      0, 2};
  const cuda::ScopedDriver scope(&driver.api());
  measuring::DeviceGather gather(0);
  const std::vector<int64_t> positions{0, 599, 77, 77};
  for (const DataType type : {f16, f32, i64}) {
    const NDArray all = NDArray::random({20, 30}, type, 3);
    const NDArray got = gather(all.to_device(Device::cuda()), positions);
    ASSERT_EQ(got.size(), 4);
    for (int64_t i = 0; i < 4; ++i)
      EXPECT_EQ(got.get(i), all.get(positions[static_cast<size_t>(i)])) << to_string(type);
  }
  EXPECT_EQ(driver.launches.size(), 3);
}

TEST(CudaMeasure, RacesToTheEndAndDropsWhoFails) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const TuneTask task = gpu_matmul();
  const std::vector<Schedule> schedules = gpu_candidates(task, 3);
  EmulatedDevice::Faults faults;
  faults[schedules[1].to_json().dump()] = Misbehaves::Dies;
  const auto measurer = emulated_measurer(faults);
  const std::vector<MeasureResult> results =
      measurer->race(task, schedules, 60, TuneClock());  // ends when sure
  ASSERT_EQ(results.size(), 3u);
  for (size_t i : {0, 2}) {
    ASSERT_TRUE(results[i].ok()) << results[i].message;
    EXPECT_GE(results[i].seconds.size(), 6u);
    EXPECT_DOUBLE_EQ(results[i].median(), made_up_seconds(schedules[i].to_json()));
  }
  EXPECT_FALSE(results[1].ok());
}

// A reference so large that the CPU is not asked for it.
TEST(CudaMeasure, AReferenceComesFromNaiveKernels) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  const TuneTask task = gpu_matmul();
  const auto measurer = emulated_measurer({}, {}, "no cpu reference");
  const Collected got = measure_all(*measurer, task, gpu_candidates(task, 1));
  EXPECT_TRUE(got.results[0].ok());
  EXPECT_EQ(got.results[0].message, "");  // it was checked
}

TEST(CudaCandidate, SurvivesTheWay) {
  KernelCode code;
  code.name = "k";
  code.args = {{.name = "x",
                .dtype = f32,
                .shape = {4, 8},
                .output = false,
                .constant = true,
                .alignment = 16},
               {.name = "y", .dtype = bf16, .shape = {}, .output = true}};
  code.persistent = {{.name = "p", .dtype = f16, .shape = {3}}};
  auto program = std::make_shared<cuda::Program>();
  program->arch = "sm_90a";
  for (int i = 0; i < 256; ++i) program->cubin += static_cast<char>(i);
  program->workspaces = {{4096, true}, {16, false}};
  program->launches = {{"a", {7, 2, 1}, {128, 1, 1}, 49152, 2, {0, 2, 1}}};
  program->prepare = {{"b", {1, 1, 1}, {32, 1, 1}, 0, 1, {0}}};
  code.cuda = program;
  const KernelCode back =
      measuring::kernel_code_from_json(Json::parse(measuring::to_json(code).dump()));
  EXPECT_EQ(back.name, "k");
  EXPECT_EQ(back.cuda->cubin, program->cubin);
  EXPECT_EQ(back.cuda->arch, "sm_90a");
  ASSERT_EQ(back.args.size(), 2u);
  EXPECT_EQ(back.args[0].shape, (std::vector<int64_t>{4, 8}));
  EXPECT_TRUE(back.args[0].constant);
  EXPECT_EQ(back.args[0].alignment, 16);
  EXPECT_EQ(back.args[1].dtype, bf16);
  EXPECT_TRUE(back.args[1].output);
  ASSERT_EQ(back.persistent.size(), 1u);
  ASSERT_EQ(back.cuda->workspaces.size(), 2u);
  EXPECT_TRUE(back.cuda->workspaces[0].zeroed);
  EXPECT_EQ(back.cuda->launches[0].grid[0], 7u);
  EXPECT_EQ(back.cuda->launches[0].dynamic_smem, 49152u);
  EXPECT_EQ(back.cuda->launches[0].cluster, 2u);
  EXPECT_EQ(back.cuda->launches[0].buffers, (std::vector<int>{0, 2, 1}));
  EXPECT_EQ(back.cuda->prepare[0].kernel, "b");
}

measuring::CudaCandidate of_one_kernel(unsigned threads, unsigned shared,
                                       const cuda::KernelResources& resources) {
  measuring::CudaCandidate c;
  auto program = std::make_shared<cuda::Program>();
  program->launches = {{"k", {1, 1, 1}, {threads, 1, 1}, shared, 1, {}}};
  c.code.cuda = program;
  c.resources = {resources};
  return c;
}

TEST(CudaCandidate, IsRejectedForWhatItNeeds) {
  const Gpu& gpu = an_h200().gpu;
  using measuring::why_not_run;
  EXPECT_EQ(why_not_run(of_one_kernel(256, 1024, {.kernel = "k", .registers = 255}), gpu, true),
            "");
  EXPECT_THAT(why_not_run(of_one_kernel(512, 0, {.kernel = "k", .registers = 255}), gpu, true),
              StartsWith("too many registers: 255 for each of 512 threads"));
  EXPECT_THAT(why_not_run(of_one_kernel(128, 200 << 10, {.kernel = "k", .static_smem = 60 << 10}),
                          gpu, true),
              StartsWith("too much shared memory: "));
  const auto spilling =
      of_one_kernel(128, 0, {.kernel = "k", .registers = 255, .spill_stores = 64});
  EXPECT_THAT(why_not_run(spilling, gpu, true), StartsWith("spills: 64 bytes stored"));
  EXPECT_EQ(why_not_run(spilling, gpu, false), "");
}

TEST(CudaCandidate, NamesWhatIsMissing) {
  if (cuda::available()) GTEST_SKIP() << "there is a GPU";
  try {
    make_cuda_measurer();
    FAIL() << "there is no GPU here";
  } catch (const Error& e) {
    EXPECT_THAT(e.message, HasSubstr("needs a GPU"));
  }
}

}  // namespace
}  // namespace heddle::testing
