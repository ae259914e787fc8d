// Devices, memory, streams, modules, graphs and errors, with the fake driver.
#include "heddle/runtime/cuda.h"

#include <dlpack/dlpack.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heddle/runtime/ndarray.h"
#include "heddle/support/error.h"
#include "runtime/cuda/fake_driver.h"

namespace heddle::cuda {
namespace {

using testing::HasSubstr;

template <typename F>
Error error_of(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error;
  }
  return {ErrorKind::Internal, "no error"};
}

class Cuda : public testing::Test {
 protected:
  FakeDriver driver_;
  ScopedDriver scope_{&driver_.api()};
};

TEST(CudaMissing, OnlyWhoAsksForAGpuIsTold) {
  const ScopedDriver none(nullptr);
  EXPECT_FALSE(available());
  EXPECT_THAT(unavailable_reason(), HasSubstr("driver was not found"));
  const NDArray a = NDArray::zeros({4}, f32);
  EXPECT_EQ(a.to_host().data(), a.data());
  const Error error = error_of([&] { a.to_device(Device::cuda()); });
  EXPECT_EQ(error.kind, ErrorKind::Runtime);
  EXPECT_THAT(error.message, HasSubstr("no GPU: the NVIDIA driver was not found"));
  EXPECT_THAT(error.help, HasSubstr("Target::host()"));
  EXPECT_THROW(Stream(), Error);
  EXPECT_THROW(capture([] {}), Error);
  EXPECT_FALSE(context_lost());
}

TEST_F(Cuda, DevicesAreAskedInAChild) {
  const std::vector<DeviceInfo> found = devices();
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].name, "NVIDIA H200");
  EXPECT_EQ(found[0].sms, 132);
  EXPECT_EQ(found[0].smem_per_block_optin, 227 << 10);
  EXPECT_EQ(found[0].memory_bytes, std::int64_t{1} << 30);
  EXPECT_EQ(driver_.inits, 0);
  EXPECT_EQ(unavailable_reason(), "");
}

TEST_F(Cuda, NoDeviceOrABrokenDriverHasAReason) {
  driver_.failing["init"] = 999;
  EXPECT_FALSE(available());
  EXPECT_THAT(unavailable_reason(), HasSubstr("cuInit failed: CUDA_ERROR_OF_A_TEST"));
  EXPECT_THAT(error_of([] { synchronize(); }).message, HasSubstr("cuInit failed"));
  FakeDriver second;
  second.device_count = 0;
  const ScopedDriver scope(&second.api());
  EXPECT_THAT(unavailable_reason(), HasSubstr("knows no device"));
  EXPECT_THAT(error_of([] { synchronize(); }).message,
              HasSubstr("there is no cuda:0: the driver has 0 devices"));
}

TEST_F(Cuda, ADriverThatCrashesIsNoDevice) {
  api::Api crashing = driver_.api();
  crashing.init = [](unsigned) -> api::Result { ::_exit(3); };
  const ScopedDriver scope(&crashing);
  EXPECT_FALSE(available());
  EXPECT_THAT(unavailable_reason(), HasSubstr("did not answer"));
}

TEST_F(Cuda, ArraysGoThereAndBack) {
  for (DataType type : {f64, f32, f16, bf16, i8, i64, boolean}) {
    const NDArray a = NDArray::random({3, 5, 7}, type, 1);
    const NDArray there = a.to_device(Device::cuda());
    EXPECT_TRUE(there.device().is_cuda());
    EXPECT_NE(there.data(), a.data());
    EXPECT_EQ(there.to_device(Device::cuda()).data(), there.data());
    const NDArray rows = there.rows(1, 3).view({70});
    EXPECT_EQ(max_abs_diff(rows.to_host(), a.rows(1, 3).view({70})), 0);
    const NDArray copy = there.copy();
    EXPECT_TRUE(copy.device().is_cuda());
    EXPECT_NE(copy.data(), there.data());
    EXPECT_EQ(max_abs_diff(copy, a), 0);  // compare copies it back
  }
  EXPECT_EQ(describe(NDArray::empty({2, 3}, f32, Device::cuda())), "f32[2, 3] on cuda:0");
  EXPECT_EQ(NDArray::empty({0, 3}, f32, Device::cuda()).to_host().size(), 0);
}

TEST_F(Cuda, FillsOfEveryWidth) {
  for (DataType type : {f64, f32, f16, bf16, i8, i16, i64, boolean}) {
    const double value = type == boolean ? 1 : 3;
    const NDArray a = NDArray::zeros({33}, type, Device::cuda());
    EXPECT_EQ(max_abs_diff(a, NDArray::zeros({33}, type)), 0) << to_string(type);
    a.fill(value);
    EXPECT_EQ(max_abs_diff(a, NDArray::full({33}, type, value)), 0) << to_string(type);
  }
}

TEST_F(Cuda, SingleElementsOfAGpuArrayAreOutOfReach) {
  const NDArray a = NDArray::zeros({4}, f32, Device::cuda());
  for (const Error& error :
       {error_of([&] { (void)a.get(0); }), error_of([&] { a.set(0, 1); }),
        error_of([&] { (void)a.at<float>({0}); }), error_of([&] { (void)a.cast(f64); })}) {
    EXPECT_EQ(error.kind, ErrorKind::User);
    EXPECT_THAT(error.message, HasSubstr("f32[4] on cuda:0"));
    EXPECT_THAT(error.help, HasSubstr("to_host()"));
  }
}

TEST_F(Cuda, DlpackNamesTheDevice) {
  NDArray a = NDArray::random({2, 3}, f32, 1).to_device(Device::cuda());
  DLManagedTensor* exported = a.to_dlpack();
  EXPECT_EQ(exported->dl_tensor.device.device_type, kDLCUDA);
  EXPECT_EQ(exported->dl_tensor.device.device_id, 0);
  EXPECT_EQ(exported->dl_tensor.data, a.data());
  const NDArray copy = a.copy();
  a = NDArray();
  const NDArray back = NDArray::from_dlpack(exported);
  EXPECT_EQ(back.device(), Device::cuda());
  EXPECT_EQ(max_abs_diff(back, copy), 0);
  // The array is not row-major, and the other library must copy it.
  DLManagedTensor* transposed = back.to_dlpack();
  std::swap(transposed->dl_tensor.strides[0], transposed->dl_tensor.strides[1]);
  EXPECT_THAT(error_of([&] { NDArray::from_dlpack(transposed); }).help, HasSubstr("contiguous"));
  transposed->deleter(transposed);
}

TEST_F(Cuda, FreedBlocksServeTheNextArray) {
  const void* first = nullptr;
  {
    const NDArray a = NDArray::empty({1000}, f32, Device::cuda());
    first = a.data();
    EXPECT_EQ(memory_stats().used_bytes, 4096);
  }
  EXPECT_EQ(memory_stats().used_bytes, 0);
  EXPECT_EQ(memory_stats().cached_bytes, 4096);
  const NDArray b = NDArray::empty({1010}, f32, Device::cuda());
  EXPECT_EQ(b.data(), first);
  EXPECT_EQ(driver_.calls["mem_alloc"], 1);
  // Much smaller ones do not waste it; another stream's work is not in its order.
  const NDArray c = NDArray::empty({1000}, f32, Device::cuda());
  EXPECT_NE(c.data(), first);
  const void* second = c.data();
  const Stream stream;
  {
    const NDArray d = c;
    (void)d;
  }
  const StreamScope scope(stream);
  EXPECT_NE(NDArray::empty({1000}, f32, Device::cuda()).data(), second);
  EXPECT_EQ(memory_stats().peak_bytes, 3 * 4096);
  release_memory();
  EXPECT_EQ(memory_stats().cached_bytes, 0);
  EXPECT_EQ(driver_.used, 2U * 4096);
}

TEST_F(Cuda, CachedMemoryIsGivenBackBeforeAnAllocationFails) {
  driver_.memory = std::size_t{64} << 20;
  {
    const NDArray a = NDArray::empty({40 << 20}, u8, Device::cuda());
  }
  EXPECT_EQ(driver_.used, std::size_t{40} << 20);
  const NDArray b = NDArray::empty({50 << 20}, u8, Device::cuda());
  EXPECT_EQ(driver_.used, std::size_t{50} << 20);
  const Error error = error_of([] { NDArray::empty({20 << 20}, u8, Device::cuda()); });
  EXPECT_EQ(error.kind, ErrorKind::Runtime);
  EXPECT_THAT(error.message, HasSubstr("cuMemAlloc of 20971520 bytes"));
  EXPECT_THAT(error.message, HasSubstr("CUDA_ERROR_OUT_OF_MEMORY (out of memory)"));
  EXPECT_FALSE(context_lost());
}

TEST_F(Cuda, ABlockOfAStreamThatIsGoneIsAnyones) {
  const void* block = nullptr;
  {
    const Stream stream;
    const StreamScope scope(stream);
    block = NDArray::empty({64}, f32, Device::cuda()).data();
  }
  EXPECT_EQ(NDArray::empty({64}, f32, Device::cuda()).data(), block);
}

TEST_F(Cuda, StreamsNestAndEnd) {
  EXPECT_EQ(Stream::current().handle(), nullptr);
  {
    const Stream one, two;
    const StreamScope outer(one);
    EXPECT_EQ(Stream::current().handle(), one.handle());
    {
      const StreamScope inner(two);
      EXPECT_EQ(Stream::current().handle(), two.handle());
    }
    EXPECT_EQ(Stream::current().handle(), one.handle());
    EXPECT_TRUE(one.done());
    Event event;
    event.record();
    two.wait(event);
    event.synchronize();
    EXPECT_TRUE(event.wait_for(1));
    const Event moved = std::move(event);
    EXPECT_TRUE(moved.done());
    EXPECT_EQ(driver_.streams, 2);
  }
  EXPECT_EQ(driver_.streams, 0);
  EXPECT_EQ(driver_.events, 0);
  EXPECT_EQ(Stream::current().handle(), nullptr);
}

TEST_F(Cuda, AnEventThatNeverComesEndsTheWait) {
  const Event event;
  event.record(Stream::current());
  driver_.hangs = true;
  EXPECT_FALSE(event.wait_for(0.01));
  abandon(0, "a kernel hangs");
  EXPECT_TRUE(context_lost());
  EXPECT_THAT(error_of([] { synchronize(); }).message,
              HasSubstr("lost its context on cuda:0: a kernel hangs"));
}

TEST_F(Cuda, FunctionsOfAModuleAreLaunched) {
  driver_.kernels["twice"] = {1, [](std::vector<void*> p) { static_cast<float*>(p[0])[0] *= 2; }};
  const NDArray a = NDArray::full({1}, f32, 4).to_device(Device::cuda());
  {
    const Module module = Module::load("a cubin");
    const Function twice = module.function("twice");
    EXPECT_EQ(twice.registers(), 32);
    EXPECT_EQ(twice.blocks_per_sm(256, 0), 8);
    void* pointer = a.data();
    void* params[] = {&pointer};
    twice.launch(Stream::current(), {3, 2, 1}, {64, 1, 1}, params, 1024);
    ASSERT_EQ(driver_.launches.size(), 1U);
    EXPECT_EQ(driver_.launches[0].grid, (std::vector<unsigned>{3, 2, 1}));
    EXPECT_EQ(driver_.launches[0].block[0], 64U);
    EXPECT_EQ(driver_.launches[0].smem, 1024U);
    EXPECT_EQ(a.to_host().get(0), 8);
    // Above 48 KiB it has to be asked for, clusters go another way.
    twice.launch(Stream::current(), {8, 1, 1}, {64, 1, 1}, params, 100 << 10, 4);
    EXPECT_EQ(driver_.smem_asked["twice"], 100 << 10);
    EXPECT_EQ(driver_.launches[1].cluster, 4U);
    EXPECT_THAT(error_of([&] {
                  twice.launch(Stream::current(), {1, 1, 1}, {64, 1, 1}, params, 228 << 10);
                }).message,
                HasSubstr("'twice' needs 233472 bytes of shared memory"));
    EXPECT_THAT(error_of([&] { module.function("thrice"); }).message,
                HasSubstr("no kernel 'thrice' in the code of 'module'"));
  }
  EXPECT_EQ(driver_.modules, 0);
  EXPECT_THAT(error_of([] { Module::load("for another GPU", 0, "mm"); }).message,
              HasSubstr("the code of 'mm' is for another GPU than cuda:0 (NVIDIA H200, sm_90)"));
  EXPECT_THAT(error_of([] { Module::load("bad PTX"); }).message, HasSubstr("line 3: syntax error"));
}

TEST_F(Cuda, ALostContextIsReportedAsSuch) {
  driver_.kernels["wild"] = {0, {}};
  const NDArray a = NDArray::zeros({4}, f32, Device::cuda());
  const Module module = Module::load("a cubin");
  module.function("wild").launch(Stream::current(), {1, 1, 1}, {32, 1, 1}, {});
  driver_.failing["stream_synchronize"] = 700;
  const Error error = error_of([&] { a.to_host(); });
  EXPECT_EQ(error.kind, ErrorKind::Runtime);
  EXPECT_THAT(error.message, HasSubstr("lost its context on cuda:0"));
  EXPECT_THAT(error.message, HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (an illegal memory access was "
                                       "encountered); the last kernel launched was 'wild'"));
  EXPECT_TRUE(context_lost());
  driver_.failing.clear();
  // Whatever follows says the same, and destructors leave the driver alone.
  const int frees = driver_.calls["mem_free"];
  EXPECT_THAT(error_of([&] { NDArray::zeros({4}, f32, Device::cuda()); }).message,
              HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  EXPECT_EQ(driver_.calls["mem_free"], frees);
}

TEST_F(Cuda, AFailedLaunchNamesTheKernel) {
  driver_.kernels["k"] = {0, {}};
  const Function k = Module::load("a cubin").function("k");
  driver_.failing["launch_kernel"] = 1;
  const Error error =
      error_of([&] { k.launch(Stream::current(), {7, 1, 1}, {2048, 1, 1}, {}, 64); });
  EXPECT_THAT(error.message, HasSubstr("the launch of 7x1x1 blocks of 2048x1x1 threads with 64 "
                                       "bytes of dynamic shared memory failed for kernel 'k': "
                                       "CUDA_ERROR_INVALID_VALUE"));
  EXPECT_FALSE(context_lost());
}

TEST_F(Cuda, GraphsReplayWhatWasCaptured) {
  driver_.kernels["add_one"] = {1, [](std::vector<void*> p) { ++*static_cast<float*>(p[0]); }};
  const Module module = Module::load("a cubin");
  const Function add_one = module.function("add_one");
  NDArray a = NDArray::zeros({1}, f32, Device::cuda());
  const NDArray b = NDArray::zeros({1}, f32, Device::cuda());
  {
    const Graph graph = capture([&] {
      void* pointer = a.data();
      void* params[] = {&pointer};
      a.fill(5);
      add_one.launch(Stream::current(), {1, 1, 1}, {1, 1, 1}, params);
      b.copy_from(a);
    });
    EXPECT_EQ(graph.size(), 3U);
    EXPECT_TRUE(driver_.launches.empty());
    EXPECT_EQ(b.to_host().get(0), 0);
    graph.upload(Stream::current());
    graph.launch();
    EXPECT_EQ(b.to_host().get(0), 6);
    graph.launch();
    EXPECT_EQ(driver_.launches.size(), 2U);
    EXPECT_EQ(driver_.graphs, 2);  // what was recorded, and what is launched
  }
  EXPECT_EQ(driver_.graphs, 0);
}

TEST_F(Cuda, WhatCannotBeCapturedSaysSo) {
  const NDArray a = NDArray::zeros({1}, f32, Device::cuda());
  EXPECT_THAT(error_of([&] { capture([&] { a.to_host(); }); }).message,
              HasSubstr("a copy to the CPU cannot be captured"));
  EXPECT_THAT(error_of([&] { capture([&] { a.copy_from(NDArray::zeros({1}, f32)); }); }).message,
              HasSubstr("a copy from the CPU cannot be captured"));
  EXPECT_THAT(error_of([&] { capture([&] { capture([] {}); }); }).message,
              HasSubstr("inside of cuda::capture"));
  EXPECT_EQ(driver_.graphs, 0);
  EXPECT_EQ(driver_.streams, 0);
  EXPECT_NO_THROW(a.to_host());  // the capture is over
  EXPECT_THROW(Graph().launch(), Error);
}

TEST_F(Cuda, AChildOfAProcessThatUsedCudaHasNone) {
  const NDArray a = NDArray::zeros({1}, f32, Device::cuda());
  const pid_t child = ::fork();
  if (child == 0) {
    const Error error = error_of([] { synchronize(); });
    ::_exit(error.message.find("its parent used it before forking") != std::string::npos ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_NO_THROW(synchronize());
}

TEST_F(Cuda, AChildOfAProcessThatOnlyAskedHasIt) {
  ASSERT_TRUE(available());
  const pid_t child = ::fork();
  if (child == 0) {
    const NDArray a = NDArray::zeros({1}, f32, Device::cuda());
    ::_exit(a.to_host().get(0) == 0 ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace heddle::cuda
