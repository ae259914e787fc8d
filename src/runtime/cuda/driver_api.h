// The part of CUDA's driver API that is used, declared here. No CUDA header is needed to build, and
// the library is opened at run time. Layouts and values are those of CUDA, stable since CUDA 11.8.
// tests/runtime/cuda/header_test.cpp compares them with cuda.h where there is one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace heddle::cuda::api {

using Result = int;
using DeviceId = int;
using DevicePtr = unsigned long long;
using Context = struct ContextTag*;
using StreamHandle = struct StreamTag*;
using EventHandle = struct EventTag*;
using ModuleHandle = struct ModuleTag*;
using FunctionHandle = struct FunctionTag*;
using GraphHandle = struct GraphTag*;
using GraphExec = struct GraphExecTag*;
using GraphNode = struct GraphNodeTag*;

enum : Result {
  kSuccess = 0,
  kOutOfMemory = 2,
  kDeinitialized = 4,
  kNotReady = 600,
  kNotFound = 500,
  kNoBinaryForGpu = 209,
};

/// CUdevice_attribute
enum Attribute : int {
  kMaxThreadsPerBlock = 1,
  kSharedMemoryPerBlock = 8,
  kWarpSize = 10,
  kClockRate = 13,
  kMultiprocessorCount = 16,
  kMemoryClockRate = 36,
  kMemoryBusWidth = 37,
  kL2CacheSize = 38,
  kMaxThreadsPerMultiprocessor = 39,
  kComputeCapabilityMajor = 75,
  kComputeCapabilityMinor = 76,
  kSharedMemoryPerMultiprocessor = 81,
  kRegistersPerMultiprocessor = 82,
  kSharedMemoryPerBlockOptin = 97,
  kMaxBlocksPerMultiprocessor = 106,
  kReservedSharedMemoryPerBlock = 111,
};

/// CUfunction_attribute
enum FunctionAttribute : int {
  kFunctionMaxThreads = 0,
  kFunctionSharedBytes = 1,
  kFunctionLocalBytes = 3,
  kFunctionRegisters = 4,
  kFunctionMaxDynamicShared = 8,
  kFunctionNonPortableCluster = 14,
};

inline constexpr unsigned kStreamNonBlocking = 1;
inline constexpr unsigned kEventDefault = 0;
inline constexpr int kCaptureRelaxed = 2;
inline constexpr int kNotCaptured = 0;  // CUstreamCaptureStatus
inline constexpr int kLaunchClusterDimension = 4, kLaunchOverlaps = 6;
/// JIT option CU_JIT_ERROR_LOG_BUFFER; its size is the next number.
inline constexpr int kJitErrorLog = 5;
inline constexpr int kJitErrorLogBytes = 6;

/// CUlaunchAttribute, of which two kinds are used.
struct LaunchAttribute {
  int id = 0;
  char pad[4] = {};
  union {
    char bytes[64] = {};
    unsigned cluster[3];
    int overlaps;  // programmaticStreamSerializationAllowed
  };
};

/// CUlaunchConfig
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned dynamic_smem = 0;
  StreamHandle stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};

// X(our name, result, parameters, CUDA's symbol). Symbols are those of the present ABI: a name
// without its _v2 is an older function with other types.
#define HEDDLE_CUDA_DRIVER_FUNCTIONS(X)                                                           \
  X(get_error_name, (Result, const char**), "cuGetErrorName")                                     \
  X(get_error_string, (Result, const char**), "cuGetErrorString")                                 \
  X(init, (unsigned), "cuInit")                                                                   \
  X(driver_get_version, (int*), "cuDriverGetVersion")                                             \
  X(device_get_count, (int*), "cuDeviceGetCount")                                                 \
  X(device_get, (DeviceId*, int), "cuDeviceGet")                                                  \
  X(device_get_name, (char*, int, DeviceId), "cuDeviceGetName")                                   \
  X(device_get_attribute, (int*, int, DeviceId), "cuDeviceGetAttribute")                          \
  X(device_total_mem, (std::size_t*, DeviceId), "cuDeviceTotalMem_v2")                            \
  X(primary_ctx_retain, (Context*, DeviceId), "cuDevicePrimaryCtxRetain")                         \
  X(ctx_get_current, (Context*), "cuCtxGetCurrent")                                               \
  X(ctx_set_current, (Context), "cuCtxSetCurrent")                                                \
  X(ctx_synchronize, (), "cuCtxSynchronize")                                                      \
  X(mem_alloc, (DevicePtr*, std::size_t), "cuMemAlloc_v2")                                        \
  X(mem_free, (DevicePtr), "cuMemFree_v2")                                                        \
  X(mem_alloc_host, (void**, std::size_t), "cuMemAllocHost_v2")                                   \
  X(mem_free_host, (void*), "cuMemFreeHost")                                                      \
  X(memcpy_htod_async, (DevicePtr, const void*, std::size_t, StreamHandle),                       \
    "cuMemcpyHtoDAsync_v2")                                                                       \
  X(memcpy_dtoh_async, (void*, DevicePtr, std::size_t, StreamHandle), "cuMemcpyDtoHAsync_v2")     \
  X(memcpy_dtod_async, (DevicePtr, DevicePtr, std::size_t, StreamHandle), "cuMemcpyDtoDAsync_v2") \
  X(memcpy_peer_async, (DevicePtr, Context, DevicePtr, Context, std::size_t, StreamHandle),       \
    "cuMemcpyPeerAsync")                                                                          \
  X(memset_d8_async, (DevicePtr, unsigned char, std::size_t, StreamHandle), "cuMemsetD8Async")    \
  X(memset_d16_async, (DevicePtr, unsigned short, std::size_t, StreamHandle), "cuMemsetD16Async") \
  X(memset_d32_async, (DevicePtr, unsigned, std::size_t, StreamHandle), "cuMemsetD32Async")       \
  X(stream_create, (StreamHandle*, unsigned), "cuStreamCreate")                                   \
  X(stream_destroy, (StreamHandle), "cuStreamDestroy_v2")                                         \
  X(stream_synchronize, (StreamHandle), "cuStreamSynchronize")                                    \
  X(stream_query, (StreamHandle), "cuStreamQuery")                                                \
  X(stream_wait_event, (StreamHandle, EventHandle, unsigned), "cuStreamWaitEvent")                \
  X(stream_begin_capture, (StreamHandle, int), "cuStreamBeginCapture_v2")                         \
  X(stream_end_capture, (StreamHandle, GraphHandle*), "cuStreamEndCapture")                       \
  X(stream_is_capturing, (StreamHandle, int*), "cuStreamIsCapturing")                             \
  X(thread_exchange_capture_mode, (int*), "cuThreadExchangeStreamCaptureMode")                    \
  X(event_create, (EventHandle*, unsigned), "cuEventCreate")                                      \
  X(event_destroy, (EventHandle), "cuEventDestroy_v2")                                            \
  X(event_record, (EventHandle, StreamHandle), "cuEventRecord")                                   \
  X(event_query, (EventHandle), "cuEventQuery")                                                   \
  X(event_synchronize, (EventHandle), "cuEventSynchronize")                                       \
  X(event_elapsed_time, (float*, EventHandle, EventHandle), "cuEventElapsedTime")                 \
  X(module_load_data_ex, (ModuleHandle*, const void*, unsigned, int*, void**),                    \
    "cuModuleLoadDataEx")                                                                         \
  X(module_unload, (ModuleHandle), "cuModuleUnload")                                              \
  X(module_get_function, (FunctionHandle*, ModuleHandle, const char*), "cuModuleGetFunction")     \
  X(func_get_attribute, (int*, int, FunctionHandle), "cuFuncGetAttribute")                        \
  X(func_set_attribute, (FunctionHandle, int, int), "cuFuncSetAttribute")                         \
  X(occupancy, (int*, FunctionHandle, int, std::size_t),                                          \
    "cuOccupancyMaxActiveBlocksPerMultiprocessor")                                                \
  X(launch_kernel,                                                                                \
    (FunctionHandle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,        \
     StreamHandle, void**, void**),                                                               \
    "cuLaunchKernel")                                                                             \
  X(launch_kernel_ex, (const LaunchConfig*, FunctionHandle, void**, void**), "cuLaunchKernelEx")  \
  X(graph_instantiate, (GraphExec*, GraphHandle, unsigned long long),                             \
    "cuGraphInstantiateWithFlags")                                                                \
  X(graph_get_nodes, (GraphHandle, GraphNode*, std::size_t*), "cuGraphGetNodes")                  \
  X(graph_destroy, (GraphHandle), "cuGraphDestroy")                                               \
  X(graph_upload, (GraphExec, StreamHandle), "cuGraphUpload")                                     \
  X(graph_launch, (GraphExec, StreamHandle), "cuGraphLaunch")                                     \
  X(graph_exec_destroy, (GraphExec), "cuGraphExecDestroy")

/// CUtensorMap: what TMA knows of a tensor. Kernels take it by value.
struct alignas(128) TensorMapBytes {
  unsigned long long opaque[16] = {};
};
/// CUtensorMapDataType, and the one value of each further option that is used.
inline constexpr int kTensorMapUint8 = 0, kTensorMapUint16 = 1, kTensorMapTf32 = 11;
inline constexpr int kInterleaveNone = 0, kSwizzle128 = 3, kPromoteL2To128 = 2, kFillZeros = 0;
/// cuTensorMapEncodeTiled, of CUDA 12.0: (map, type, rank, address, extents, strides, box, element
/// strides, interleave, swizzle, promotion, fill), innermost dimension first.
using TensorMapEncode = Result (*)(TensorMapBytes*, int, unsigned, void*, const unsigned long long*,
                                   const unsigned long long*, const unsigned*, const unsigned*, int,
                                   int, int, int);

/// cuTensorMapEncodeIm2col, of CUDA 12.0: (map, type, rank, address, extents, strides, lower
/// corner, upper corner, channels and pixels of a box, element strides, interleave, swizzle,
/// promotion, fill), innermost dimension first.
using TensorMapEncodeWindows = Result (*)(TensorMapBytes*, int, unsigned, void*,
                                          const unsigned long long*, const unsigned long long*,
                                          const int*, const int*, unsigned, unsigned,
                                          const unsigned*, int, int, int, int);

/// CUDA_KERNEL_NODE_PARAMS_v2
struct KernelNodeParams {
  FunctionHandle function = nullptr;
  unsigned grid[3] = {1, 1, 1};
  unsigned block[3] = {1, 1, 1};
  unsigned dynamic_smem = 0;
  void** params = nullptr;
  void** extra = nullptr;
  void* kernel = nullptr;
  Context context = nullptr;
};
/// cuGraphKernelNodeGetParams_v2 and cuGraphExecKernelNodeSetParams_v2, of CUDA 12.0.
using KernelNodeGet = Result (*)(GraphNode, KernelNodeParams*);
using KernelNodeSet = Result (*)(GraphExec, GraphNode, const KernelNodeParams*);

/// One pointer to each function. Tests replace this table.
struct Api {
#define HEDDLE_CUDA_DECLARE(name, parameters, symbol) Result(*name) parameters = nullptr;
  HEDDLE_CUDA_DRIVER_FUNCTIONS(HEDDLE_CUDA_DECLARE)
#undef HEDDLE_CUDA_DECLARE
  /// Null where the driver is older than CUDA 12.0.
  TensorMapEncode tensor_map_encode = nullptr;
  TensorMapEncodeWindows tensor_map_encode_windows = nullptr;
  KernelNodeGet kernel_node_get = nullptr;
  KernelNodeSet kernel_node_set = nullptr;
};

/// The driver library, HEDDLE_LIBCUDA in place of libcuda.so.1 if that is set. Null where there is
/// none or it lacks a function; then `reason` says so.
std::unique_ptr<const Api> load_driver(std::string& reason);

}  // namespace heddle::cuda::api
