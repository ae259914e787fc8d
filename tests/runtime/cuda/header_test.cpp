// Our declarations of the driver API against NVIDIA's, where cuda.h is here to compare with.
#if __has_include(<cuda.h>)
#include <cuda.h>
#define HEDDLE_HAVE_CUDA_H 1
#endif

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "runtime/cuda/driver_api.h"

namespace heddle::cuda {
namespace {

#ifdef HEDDLE_HAVE_CUDA_H

template <typename A, typename B>
constexpr bool same(A a, B b) {
  return static_cast<long long>(a) == static_cast<long long>(b);
}

static_assert(sizeof(CUresult) == sizeof(api::Result));
static_assert(sizeof(CUdevice) == sizeof(api::DeviceId));
static_assert(sizeof(CUdeviceptr) == sizeof(api::DevicePtr));
static_assert(same(CUDA_SUCCESS, api::kSuccess));
static_assert(same(CUDA_ERROR_OUT_OF_MEMORY, api::kOutOfMemory));
static_assert(same(CUDA_ERROR_DEINITIALIZED, api::kDeinitialized));
static_assert(same(CUDA_ERROR_NOT_READY, api::kNotReady));
static_assert(same(CUDA_ERROR_NOT_FOUND, api::kNotFound));
static_assert(same(CUDA_ERROR_NO_BINARY_FOR_GPU, api::kNoBinaryForGpu));

static_assert(same(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK, api::kMaxThreadsPerBlock));
static_assert(same(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK, api::kSharedMemoryPerBlock));
static_assert(same(CU_DEVICE_ATTRIBUTE_WARP_SIZE, api::kWarpSize));
static_assert(same(CU_DEVICE_ATTRIBUTE_CLOCK_RATE, api::kClockRate));
static_assert(same(CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, api::kMultiprocessorCount));
static_assert(same(CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE, api::kMemoryClockRate));
static_assert(same(CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, api::kMemoryBusWidth));
static_assert(same(CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, api::kL2CacheSize));
static_assert(same(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR,
                   api::kMaxThreadsPerMultiprocessor));
static_assert(same(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, api::kComputeCapabilityMajor));
static_assert(same(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, api::kComputeCapabilityMinor));
static_assert(same(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR,
                   api::kSharedMemoryPerMultiprocessor));
static_assert(same(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR,
                   api::kRegistersPerMultiprocessor));
static_assert(same(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
                   api::kSharedMemoryPerBlockOptin));
static_assert(same(CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR,
                   api::kMaxBlocksPerMultiprocessor));
static_assert(same(CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK,
                   api::kReservedSharedMemoryPerBlock));

static_assert(same(CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, api::kFunctionMaxThreads));
static_assert(same(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, api::kFunctionSharedBytes));
static_assert(same(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, api::kFunctionLocalBytes));
static_assert(same(CU_FUNC_ATTRIBUTE_NUM_REGS, api::kFunctionRegisters));
static_assert(same(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                   api::kFunctionMaxDynamicShared));
static_assert(same(CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                   api::kFunctionNonPortableCluster));

static_assert(same(CU_STREAM_NON_BLOCKING, api::kStreamNonBlocking));
static_assert(same(CU_EVENT_DEFAULT, api::kEventDefault));
static_assert(same(CU_STREAM_CAPTURE_MODE_RELAXED, api::kCaptureRelaxed));
static_assert(same(CU_STREAM_CAPTURE_STATUS_NONE, api::kNotCaptured));
static_assert(same(CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION, api::kLaunchClusterDimension));
static_assert(same(CU_JIT_ERROR_LOG_BUFFER, api::kJitErrorLog));
static_assert(same(CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, api::kJitErrorLogBytes));

static_assert(sizeof(CUtensorMap) == sizeof(api::TensorMapBytes) &&
              alignof(CUtensorMap) <= alignof(api::TensorMapBytes));
static_assert(same(CU_TENSOR_MAP_DATA_TYPE_UINT16, api::kTensorMapUint16));
static_assert(same(CU_TENSOR_MAP_DATA_TYPE_UINT8, api::kTensorMapUint8));
static_assert(same(CU_TENSOR_MAP_DATA_TYPE_TFLOAT32, api::kTensorMapTf32));
static_assert(same(CU_TENSOR_MAP_INTERLEAVE_NONE, api::kInterleaveNone));
static_assert(same(CU_TENSOR_MAP_SWIZZLE_128B, api::kSwizzle128));
static_assert(same(CU_TENSOR_MAP_L2_PROMOTION_L2_128B, api::kPromoteL2To128));
static_assert(same(CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE, api::kFillZeros));

static_assert(sizeof(CUlaunchAttribute) == sizeof(api::LaunchAttribute));
static_assert(offsetof(CUlaunchAttribute, value) == offsetof(api::LaunchAttribute, cluster));
static_assert(sizeof(CUlaunchConfig) == sizeof(api::LaunchConfig));
static_assert(sizeof(CUDA_KERNEL_NODE_PARAMS) == sizeof(api::KernelNodeParams) &&
              offsetof(CUDA_KERNEL_NODE_PARAMS, gridDimX) ==
                  offsetof(api::KernelNodeParams, grid) &&
              offsetof(CUDA_KERNEL_NODE_PARAMS, sharedMemBytes) ==
                  offsetof(api::KernelNodeParams, dynamic_smem) &&
              offsetof(CUDA_KERNEL_NODE_PARAMS, kernelParams) ==
                  offsetof(api::KernelNodeParams, params));
static_assert(offsetof(CUlaunchConfig, gridDimX) == offsetof(api::LaunchConfig, grid));
static_assert(offsetof(CUlaunchConfig, blockDimX) == offsetof(api::LaunchConfig, block));
static_assert(offsetof(CUlaunchConfig, sharedMemBytes) ==
              offsetof(api::LaunchConfig, dynamic_smem));
static_assert(offsetof(CUlaunchConfig, hStream) == offsetof(api::LaunchConfig, stream));
static_assert(offsetof(CUlaunchConfig, attrs) == offsetof(api::LaunchConfig, attributes));
static_assert(offsetof(CUlaunchConfig, numAttrs) == offsetof(api::LaunchConfig, attribute_count));

// Each parameter of ours as wide as NVIDIA's, in the same order.
template <typename Ours, typename Theirs>
struct Agree : std::false_type {};
template <typename... Ours, typename... Theirs>
struct Agree<api::Result(Ours...), CUresult(Theirs...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(Ours) != sizeof...(Theirs)) {
      return false;
    } else {
      return ((sizeof(Ours) == sizeof(Theirs) &&
               std::is_pointer_v<Ours> == std::is_pointer_v<Theirs>) &&
              ...);
    }
  }();
};
#define AGREE(ours, theirs)                                                                        \
  static_assert(Agree<std::remove_pointer_t<decltype(api::Api::ours)>, decltype(::theirs)>::value, \
                #ours)
// The names without their _v2: cuda.h itself maps them to the present ones.
AGREE(init, cuInit);
AGREE(device_get_attribute, cuDeviceGetAttribute);
AGREE(device_total_mem, cuDeviceTotalMem);
AGREE(primary_ctx_retain, cuDevicePrimaryCtxRetain);
AGREE(mem_alloc, cuMemAlloc);
AGREE(mem_free, cuMemFree);
AGREE(mem_alloc_host, cuMemAllocHost);
AGREE(mem_free_host, cuMemFreeHost);
AGREE(memcpy_htod_async, cuMemcpyHtoDAsync);
AGREE(memcpy_dtoh_async, cuMemcpyDtoHAsync);
AGREE(memcpy_dtod_async, cuMemcpyDtoDAsync);
AGREE(memcpy_peer_async, cuMemcpyPeerAsync);
AGREE(memset_d8_async, cuMemsetD8Async);
AGREE(memset_d16_async, cuMemsetD16Async);
AGREE(memset_d32_async, cuMemsetD32Async);
AGREE(stream_create, cuStreamCreate);
AGREE(stream_destroy, cuStreamDestroy);
AGREE(stream_wait_event, cuStreamWaitEvent);
AGREE(stream_begin_capture, cuStreamBeginCapture);
AGREE(stream_end_capture, cuStreamEndCapture);
AGREE(stream_is_capturing, cuStreamIsCapturing);
AGREE(thread_exchange_capture_mode, cuThreadExchangeStreamCaptureMode);
AGREE(event_create, cuEventCreate);
AGREE(event_record, cuEventRecord);
AGREE(event_elapsed_time, cuEventElapsedTime);
AGREE(module_load_data_ex, cuModuleLoadDataEx);
AGREE(module_get_function, cuModuleGetFunction);
AGREE(func_get_attribute, cuFuncGetAttribute);
AGREE(func_set_attribute, cuFuncSetAttribute);
AGREE(occupancy, cuOccupancyMaxActiveBlocksPerMultiprocessor);
AGREE(launch_kernel, cuLaunchKernel);
AGREE(launch_kernel_ex, cuLaunchKernelEx);
AGREE(graph_instantiate, cuGraphInstantiateWithFlags);
AGREE(graph_get_nodes, cuGraphGetNodes);
AGREE(kernel_node_get, cuGraphKernelNodeGetParams);
AGREE(kernel_node_set, cuGraphExecKernelNodeSetParams);
AGREE(graph_upload, cuGraphUpload);
AGREE(graph_launch, cuGraphLaunch);

TEST(CudaHeader, OurDeclarationsAreCudas) { SUCCEED(); }  // the assertions above are the test

#else

TEST(CudaHeader, OurDeclarationsAreCudas) {
  GTEST_SKIP() << "SKIPPED: no cuda.h to compare our declarations with";
}

#endif

// The toolkit's stub has every symbol of the driver's, and does nothing.
TEST(CudaDriver, EverySymbolIsInTheStubLibrary) {
  const char* stub = "/usr/local/cuda/lib64/stubs/libcuda.so";
  if (void* library = ::dlopen(stub, RTLD_NOW | RTLD_LOCAL); library == nullptr) {
    GTEST_SKIP() << "SKIPPED: no " << stub;
  }
  ::setenv("HEDDLE_LIBCUDA", stub, 1);
  std::string reason;
  const auto table = api::load_driver(reason);
  ::unsetenv("HEDDLE_LIBCUDA");
  ASSERT_NE(table, nullptr) << reason;
  EXPECT_NE(table->init(0), api::kSuccess);
}

TEST(CudaDriver, AMissingOrForeignLibraryHasAReason) {
  std::string reason;
  ::setenv("HEDDLE_LIBCUDA", "/nonexistent/libcuda.so.1", 1);
  EXPECT_EQ(api::load_driver(reason), nullptr);
  EXPECT_NE(reason.find("/nonexistent/libcuda.so.1"), std::string::npos) << reason;
  ::setenv("HEDDLE_LIBCUDA", "libm.so.6", 1);
  EXPECT_EQ(api::load_driver(reason), nullptr);
  EXPECT_NE(reason.find("lacks cuGetErrorName"), std::string::npos) << reason;
  ::unsetenv("HEDDLE_LIBCUDA");
}

}  // namespace
}  // namespace heddle::cuda
