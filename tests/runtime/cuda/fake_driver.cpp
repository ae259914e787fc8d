#include "runtime/cuda/fake_driver.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

namespace heddle::cuda {
namespace {

FakeDriver* the_driver = nullptr;

void* memory_of(api::DevicePtr address) {
  return reinterpret_cast<void*>(static_cast<std::uintptr_t>(address));
}

template <typename Handle, typename T>
T* unwrap(Handle handle) {
  return reinterpret_cast<T*>(handle);
}

template <typename T>
void fill(api::DevicePtr to, T value, std::size_t count) {
  T* elements = static_cast<T*>(memory_of(to));
  for (std::size_t i = 0; i < count; ++i) elements[i] = value;
}

// CUDA's errors of captures.
constexpr api::Result kInvalidValue = 1;
constexpr api::Result kUnsupportedInCapture = 900, kIsolation = 905, kImplicit = 906,
                      kCapturedEvent = 907;

// Contents of handles.
struct FakeEvent {
  double at_s = 0;
  int capture = 0;        // the capture that recorded it; 0: none
  std::size_t after = 0;  // how much of what is late was before it
};
struct FakeFunction {
  std::string name;
};
struct FakeGraph {
  std::vector<std::shared_ptr<FakeDriver::Work>> work;  ///< of a recorded graph these are its nodes
  std::vector<api::GraphNode> nodes = {};               ///< of the graph that it was made of
};

api::GraphNode node_of(const std::shared_ptr<FakeDriver::Work>& work) {
  return reinterpret_cast<api::GraphNode>(work.get());
}

}  // namespace

bool FakeDriver::fails(const char* name, api::Result& result) {
  ++calls[name];
  const auto found = failing.find(name);
  if (found == failing.end()) return false;
  result = found->second;
  return true;
}

int FakeDriver::capture_of(api::StreamHandle stream) const {
  const auto* s = unwrap<api::StreamHandle, Stream>(stream);
  return s != nullptr ? s->capture : 0;
}

void FakeDriver::enqueue(api::StreamHandle stream, Work work) {
  auto* s = unwrap<api::StreamHandle, Stream>(stream);
  if (s != nullptr && s->capture != 0) {
    s->captured.push_back(std::make_shared<Work>(std::move(work)));
  } else if (late && (s == nullptr || s->waits_for > done_)) {
    late_.push_back(std::move(work.run));
    if (s != nullptr) s->waits_for = done_ + late_.size();
  } else if (late) {
    work.run();
  } else {
    finish();
    work.run();
  }
}

bool FakeDriver::is_pinned(const void* address) const {
  const auto* const at = static_cast<const char*>(address);
  return std::any_of(pinned.begin(), pinned.end(), [&](const auto& block) {
    const auto* const begin = static_cast<const char*>(block.first);
    return at >= begin && at < begin + block.second;
  });
}

void FakeDriver::enqueue_copy(api::StreamHandle stream, const void* of_cpu,
                              std::function<void()> copy) {
  enqueue(stream, {std::move(copy)});
  if (!is_pinned(of_cpu)) finish();
}

void FakeDriver::finish() {
  for (const auto& work : std::exchange(late_, {})) {
    work();
    ++done_;
  }
}

std::size_t FakeDriver::work_before(api::StreamHandle stream) const {
  const auto* s = unwrap<api::StreamHandle, Stream>(stream);
  return s != nullptr ? s->waits_for : done_ + late_.size();
}

// Each function begins by counting itself, and by failing where the test says so.
#define HEDDLE_FAKE(name, ...)           \
  static api::Result name(__VA_ARGS__) { \
    FakeDriver& d = *the_driver;         \
    if (api::Result answer = 0; d.fails(#name, answer)) return answer;

// One that CUDA forbids while a stream is captured, but for threads in the relaxed mode.
#define HEDDLE_UNSAFE_FAKE(name, ...)                                   \
  HEDDLE_FAKE(name, __VA_ARGS__)                                        \
  if (d.strict_captures_ > 0 && d.thread_mode_ != api::kCaptureRelaxed) \
    return kUnsupportedInCapture;

#define HEDDLE_END      \
  return api::kSuccess; \
  }

struct FakeFunctions {
  static api::Result get_error_name(api::Result result, const char** text) {
    *text = result == api::kOutOfMemory ? "CUDA_ERROR_OUT_OF_MEMORY"
            : result == 700             ? "CUDA_ERROR_ILLEGAL_ADDRESS"
            : result == 1               ? "CUDA_ERROR_INVALID_VALUE"
                                        : "CUDA_ERROR_OF_A_TEST";
    return api::kSuccess;
  }
  static api::Result get_error_string(api::Result result, const char** text) {
    *text = result == api::kOutOfMemory ? "out of memory"
            : result == 700             ? "an illegal memory access was encountered"
                                        : "a test's error";
    return api::kSuccess;
  }
  HEDDLE_FAKE(init, unsigned)
  ++d.inits;
  HEDDLE_END
  HEDDLE_FAKE(driver_get_version, int* v)
  *v = 13000;
  (void)d;
  HEDDLE_END
  HEDDLE_FAKE(device_get_count, int* n)
  *n = d.device_count;
  HEDDLE_END
  HEDDLE_FAKE(device_get, api::DeviceId* id, int index)
  *id = index;
  (void)d;
  HEDDLE_END
  HEDDLE_FAKE(device_get_name, char* text, int size, api::DeviceId)
  std::strncpy(text, d.device.name.c_str(), static_cast<std::size_t>(size));
  HEDDLE_END
  HEDDLE_FAKE(device_total_mem, std::size_t* bytes, api::DeviceId)
  *bytes = d.memory;
  HEDDLE_END
  HEDDLE_FAKE(device_get_attribute, int* value, int which, api::DeviceId)
  const DeviceInfo& i = d.device;
  switch (which) {
    case api::kComputeCapabilityMajor: *value = i.major; break;
    case api::kComputeCapabilityMinor: *value = i.minor; break;
    case api::kMultiprocessorCount: *value = i.sms; break;
    case api::kWarpSize: *value = i.warp_size; break;
    case api::kMaxThreadsPerBlock: *value = i.threads_per_block; break;
    case api::kMaxThreadsPerMultiprocessor: *value = i.threads_per_sm; break;
    case api::kMaxBlocksPerMultiprocessor: *value = i.blocks_per_sm; break;
    case api::kRegistersPerMultiprocessor: *value = i.registers_per_sm; break;
    case api::kSharedMemoryPerBlock: *value = i.smem_per_block; break;
    case api::kSharedMemoryPerBlockOptin: *value = i.smem_per_block_optin; break;
    case api::kSharedMemoryPerMultiprocessor: *value = i.smem_per_sm; break;
    case api::kReservedSharedMemoryPerBlock: *value = i.smem_reserved; break;
    case api::kL2CacheSize: *value = i.l2_bytes; break;
    case api::kClockRate: *value = i.clock_khz; break;
    case api::kMemoryClockRate: *value = i.memory_clock_khz; break;
    case api::kMemoryBusWidth: *value = i.memory_bus_bits; break;
    default: return 1;
  }
  HEDDLE_END
  HEDDLE_FAKE(primary_ctx_retain, api::Context* context, api::DeviceId id)
  *context = reinterpret_cast<api::Context>(static_cast<std::uintptr_t>(id) + 1);
  (void)d;
  HEDDLE_END
  HEDDLE_FAKE(ctx_get_current, api::Context* context)
  *context = d.current_;
  HEDDLE_END
  HEDDLE_FAKE(ctx_set_current, api::Context context)
  d.current_ = context;
  HEDDLE_END
  HEDDLE_FAKE(ctx_synchronize)
  if (d.captures_ > 0) return kUnsupportedInCapture;
  d.finish();
  HEDDLE_END
  HEDDLE_UNSAFE_FAKE(mem_alloc, api::DevicePtr* block, std::size_t bytes)
  if (d.used + bytes > d.memory) return api::kOutOfMemory;
  void* memory = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(memory, 0xcd, bytes);
  *block = static_cast<api::DevicePtr>(reinterpret_cast<std::uintptr_t>(memory));
  d.blocks[*block] = bytes;
  d.used += bytes;
  HEDDLE_END
  HEDDLE_UNSAFE_FAKE(mem_alloc_host, void** block, std::size_t bytes)
  *block = std::aligned_alloc(512, (bytes + 511) / 512 * 512);
  std::memset(*block, 0xcd, bytes);
  d.pinned[*block] = bytes;
  HEDDLE_END
  HEDDLE_UNSAFE_FAKE(mem_free_host, void* block)
  d.finish();
  if (d.pinned.erase(block) == 0) return kInvalidValue;
  std::free(block);
  HEDDLE_END
  HEDDLE_UNSAFE_FAKE(mem_free, api::DevicePtr block)
  d.finish();
  const auto found = d.blocks.find(block);
  if (found == d.blocks.end()) return 1;
  d.used -= found->second;
  d.blocks.erase(found);
  std::free(memory_of(block));
  HEDDLE_END
  HEDDLE_FAKE(memcpy_htod_async, api::DevicePtr to, const void* from, std::size_t bytes,
              api::StreamHandle stream)
  d.enqueue_copy(stream, from, [=] { std::memcpy(memory_of(to), from, bytes); });
  HEDDLE_END
  HEDDLE_FAKE(memcpy_dtoh_async, void* to, api::DevicePtr from, std::size_t bytes,
              api::StreamHandle stream)
  d.enqueue_copy(stream, to, [=] { std::memcpy(to, memory_of(from), bytes); });
  HEDDLE_END
  HEDDLE_FAKE(memcpy_dtod_async, api::DevicePtr to, api::DevicePtr from, std::size_t bytes,
              api::StreamHandle stream)
  d.enqueue(stream, {[=] { std::memmove(memory_of(to), memory_of(from), bytes); }});
  HEDDLE_END
  HEDDLE_FAKE(memcpy_peer_async, api::DevicePtr to, api::Context, api::DevicePtr from, api::Context,
              std::size_t bytes, api::StreamHandle stream)
  d.enqueue(stream, {[=] { std::memcpy(memory_of(to), memory_of(from), bytes); }});
  HEDDLE_END
  HEDDLE_FAKE(memset_d8_async, api::DevicePtr to, unsigned char v, std::size_t n,
              api::StreamHandle stream)
  d.enqueue(stream, {[=] { fill(to, v, n); }});
  HEDDLE_END
  HEDDLE_FAKE(memset_d16_async, api::DevicePtr to, unsigned short v, std::size_t n,
              api::StreamHandle stream)
  d.enqueue(stream, {[=] { fill(to, v, n); }});
  HEDDLE_END
  HEDDLE_FAKE(memset_d32_async, api::DevicePtr to, unsigned v, std::size_t n,
              api::StreamHandle stream)
  d.enqueue(stream, {[=] { fill(to, v, n); }});
  HEDDLE_END
  HEDDLE_FAKE(stream_create, api::StreamHandle* stream, unsigned)
  *stream = reinterpret_cast<api::StreamHandle>(d.own(new FakeDriver::Stream));
  ++d.streams;
  HEDDLE_END
  HEDDLE_FAKE(stream_destroy, api::StreamHandle stream)
  d.owned_.erase(unwrap<api::StreamHandle, FakeDriver::Stream>(stream));
  --d.streams;
  HEDDLE_END
  HEDDLE_UNSAFE_FAKE(stream_synchronize, api::StreamHandle stream)
  auto* s = unwrap<api::StreamHandle, FakeDriver::Stream>(stream);
  if (s != nullptr && !d.owned_.contains(s)) {
    ++d.uses_of_gone_streams;
    return kInvalidValue;
  }
  if (s != nullptr && s->capture != 0) return kUnsupportedInCapture;
  d.finish();
  HEDDLE_END
  HEDDLE_UNSAFE_FAKE(stream_query, api::StreamHandle)
  if (d.hangs) return api::kNotReady;
  d.finish();
  HEDDLE_END
  // A second stream that joins a capture by an event is not modelled.
  HEDDLE_FAKE(stream_wait_event, api::StreamHandle stream, api::EventHandle event, unsigned)
  const int here = d.capture_of(stream);
  if (unwrap<api::EventHandle, FakeEvent>(event)->capture != here)
    return here != 0 ? kIsolation : kCapturedEvent;
  if (auto* s = unwrap<api::StreamHandle, FakeDriver::Stream>(stream))
    s->waits_for = std::max(s->waits_for, unwrap<api::EventHandle, FakeEvent>(event)->after);
  HEDDLE_END
  HEDDLE_FAKE(stream_begin_capture, api::StreamHandle stream, int mode)
  auto* s = unwrap<api::StreamHandle, FakeDriver::Stream>(stream);
  if (s == nullptr || s->capture != 0) return kUnsupportedInCapture;
  s->capture = ++d.last_capture_;
  s->strict = mode != api::kCaptureRelaxed;
  ++d.captures_;
  d.strict_captures_ += s->strict ? 1 : 0;
  HEDDLE_END
  HEDDLE_FAKE(stream_end_capture, api::StreamHandle stream, api::GraphHandle* graph)
  auto* s = unwrap<api::StreamHandle, FakeDriver::Stream>(stream);
  *graph = reinterpret_cast<api::GraphHandle>(d.own(new FakeGraph{std::move(s->captured)}));
  s->capture = 0;
  --d.captures_;
  d.strict_captures_ -= s->strict ? 1 : 0;
  ++d.graphs;
  HEDDLE_END
  HEDDLE_FAKE(stream_is_capturing, api::StreamHandle stream, int* status)
  if (stream == nullptr && d.captures_ > 0) return kImplicit;
  *status = d.capture_of(stream) != 0 ? 1 : api::kNotCaptured;
  HEDDLE_END
  HEDDLE_FAKE(thread_exchange_capture_mode, int* mode)
  std::swap(d.thread_mode_, *mode);
  HEDDLE_END
  HEDDLE_FAKE(event_create, api::EventHandle* event, unsigned)
  *event = reinterpret_cast<api::EventHandle>(d.own(new FakeEvent));
  ++d.events;
  HEDDLE_END
  HEDDLE_FAKE(event_destroy, api::EventHandle event)
  d.owned_.erase(unwrap<api::EventHandle, FakeEvent>(event));
  --d.events;
  HEDDLE_END
  HEDDLE_FAKE(event_record, api::EventHandle event, api::StreamHandle stream)
  *unwrap<api::EventHandle, FakeEvent>(event) = {d.now_s_, d.capture_of(stream),
                                                 d.work_before(stream)};
  HEDDLE_END
  HEDDLE_UNSAFE_FAKE(event_query, api::EventHandle)
  if (d.hangs) return api::kNotReady;
  d.finish();
  HEDDLE_END
  HEDDLE_UNSAFE_FAKE(event_synchronize, api::EventHandle)
  d.finish();
  HEDDLE_END
  HEDDLE_FAKE(event_elapsed_time, float* ms, api::EventHandle begin, api::EventHandle end)
  *ms = static_cast<float>(1e3 * (unwrap<api::EventHandle, FakeEvent>(end)->at_s -
                                  unwrap<api::EventHandle, FakeEvent>(begin)->at_s));
  (void)d;
  HEDDLE_END
  HEDDLE_UNSAFE_FAKE(module_load_data_ex, api::ModuleHandle* module, const void* image,
                     unsigned count, int*, void** values)
  if (std::strcmp(static_cast<const char*>(image), "for another GPU") == 0) {
    return api::kNoBinaryForGpu;
  }
  if (std::strcmp(static_cast<const char*>(image), "bad PTX") == 0 && count > 0) {
    std::strcpy(static_cast<char*>(values[0]), "line 3: syntax error");
    return 218;
  }
  *module =
      reinterpret_cast<api::ModuleHandle>(d.own(new std::vector<std::unique_ptr<FakeFunction>>));
  ++d.modules;
  HEDDLE_END
  HEDDLE_FAKE(module_unload, api::ModuleHandle module)
  d.owned_.erase(unwrap<api::ModuleHandle, std::vector<std::unique_ptr<FakeFunction>>>(module));
  --d.modules;
  HEDDLE_END
  HEDDLE_FAKE(module_get_function, api::FunctionHandle* function, api::ModuleHandle module,
              const char* name)
  if (d.any_kernel && !d.kernels.contains(name)) {
    const auto seconds = [](const FakeDriver::Call& c) {
      const double threads = c.block[0] * c.block[1] * c.block[2];
      return 1e-6 * (1 + std::floor(c.grid[0] / 132.0)) * (1 + threads / 1024);
    };
    d.kernels[name] = {.buffers = 0, .body = {}, .seconds = seconds};
  }
  if (!d.kernels.contains(name)) return api::kNotFound;
  auto* functions = unwrap<api::ModuleHandle, std::vector<std::unique_ptr<FakeFunction>>>(module);
  functions->push_back(std::make_unique<FakeFunction>(FakeFunction{name}));
  *function = reinterpret_cast<api::FunctionHandle>(functions->back().get());
  HEDDLE_END
  HEDDLE_FAKE(func_get_attribute, int* value, int which, api::FunctionHandle)
  *value = which == api::kFunctionRegisters ? 32 : 1024;
  (void)d;
  HEDDLE_END
  HEDDLE_FAKE(func_set_attribute, api::FunctionHandle function, int which, int value)
  if (which == api::kFunctionMaxDynamicShared) {
    d.smem_asked[unwrap<api::FunctionHandle, FakeFunction>(function)->name] = value;
  }
  HEDDLE_END
  HEDDLE_FAKE(occupancy, int* blocks, api::FunctionHandle, int threads, std::size_t)
  *blocks = d.device.threads_per_sm / threads;
  HEDDLE_END

  /// The launch of a kernel with the values at `params`, which are copied now, as CUDA does.
  static FakeDriver::Work work_of(FakeDriver& d, FakeDriver::Call call, void* const* params) {
    const FakeDriver::Kernel& kernel = d.kernels.at(call.kernel);
    FakeDriver::Work work;
    std::vector<void*> buffers;
    for (std::size_t i = 0; i < kernel.buffers + kernel.maps + kernel.sizes; ++i) {
      if (i < kernel.buffers || i >= kernel.buffers + kernel.maps) {
        buffers.push_back(*static_cast<void**>(params[i]));
      } else {
        const auto* map = static_cast<const api::TensorMapBytes*>(params[i]);
        call.maps.push_back(d.maps.at(map->opaque[0]));
      }
    }
    work.run = [&d, call, buffers] {
      d.launches.push_back(call);
      const FakeDriver::Kernel& k = d.kernels.at(call.kernel);
      d.now_s_ += k.seconds ? k.seconds(call) : d.kernel_s;
      if (k.body) k.body(buffers);
    };
    work.call = std::move(call);
    return work;
  }
  HEDDLE_FAKE(launch_kernel, api::FunctionHandle function, unsigned gx, unsigned gy, unsigned gz,
              unsigned bx, unsigned by, unsigned bz, unsigned smem, api::StreamHandle stream,
              void** params, void**)
  FakeDriver::Work work = work_of(d,
                                  {unwrap<api::FunctionHandle, FakeFunction>(function)->name,
                                   {gx, gy, gz},
                                   {bx, by, bz},
                                   smem,
                                   1,
                                   stream},
                                  params);
  work.function = function;
  d.enqueue(stream, std::move(work));
  HEDDLE_END
  HEDDLE_FAKE(launch_kernel_ex, const api::LaunchConfig* c, api::FunctionHandle function,
              void** params, void**)
  unsigned cluster = 1;
  bool overlaps = false;
  for (unsigned i = 0; i < c->attribute_count; ++i) {
    if (c->attributes[i].id == api::kLaunchOverlaps) overlaps = c->attributes[i].overlaps != 0;
    if (c->attributes[i].id == api::kLaunchClusterDimension) cluster = c->attributes[i].cluster[0];
  }
  FakeDriver::Work work = work_of(d,
                                  {unwrap<api::FunctionHandle, FakeFunction>(function)->name,
                                   {c->grid[0], c->grid[1], c->grid[2]},
                                   {c->block[0], c->block[1], c->block[2]},
                                   c->dynamic_smem,
                                   cluster,
                                   c->stream,
                                   {},
                                   overlaps},
                                  params);
  work.function = function;
  d.enqueue(c->stream, std::move(work));
  HEDDLE_END
  HEDDLE_FAKE(tensor_map_encode, api::TensorMapBytes* map, int type, unsigned rank, void* address,
              const unsigned long long* extents, const unsigned long long* strides,
              const unsigned* box, const unsigned*, int, int swizzle, int, int)
  map->opaque[0] = d.maps.size();
  d.maps.push_back({type,
                    swizzle,
                    address,
                    {extents, extents + rank},
                    {strides, strides + rank - 1},
                    {box, box + rank}});
  HEDDLE_END
  HEDDLE_FAKE(tensor_map_encode_windows, api::TensorMapBytes* map, int type, unsigned rank,
              void* address, const unsigned long long* extents, const unsigned long long* strides,
              const int* lower, const int* upper, unsigned channels, unsigned pixels,
              const unsigned* steps, int, int swizzle, int, int)
  map->opaque[0] = d.maps.size();
  d.maps.push_back({type,
                    swizzle,
                    address,
                    {extents, extents + rank},
                    {strides, strides + rank - 1},
                    {channels, pixels},
                    {lower, lower + rank - 2},
                    {upper, upper + rank - 2},
                    {steps, steps + rank}});
  HEDDLE_END
  HEDDLE_FAKE(graph_instantiate, api::GraphExec* exec, api::GraphHandle graph, unsigned long long)
  auto* made = d.own(new FakeGraph);
  for (const auto& work : unwrap<api::GraphHandle, FakeGraph>(graph)->work) {
    made->work.push_back(std::make_shared<FakeDriver::Work>(*work));
    made->nodes.push_back(node_of(work));
  }
  *exec = reinterpret_cast<api::GraphExec>(made);
  ++d.graphs;
  HEDDLE_END
  HEDDLE_FAKE(graph_get_nodes, api::GraphHandle graph, api::GraphNode* nodes, std::size_t* count)
  const auto& work = unwrap<api::GraphHandle, FakeGraph>(graph)->work;
  if (nodes != nullptr) std::transform(work.begin(), work.end(), nodes, node_of);
  *count = work.size();
  (void)d;
  HEDDLE_END
  HEDDLE_FAKE(kernel_node_get, api::GraphNode node, api::KernelNodeParams* params)
  auto* work = unwrap<api::GraphNode, FakeDriver::Work>(node);
  if (work->function == nullptr) return kInvalidValue;
  params->function = work->function;
  std::copy(work->call.grid.begin(), work->call.grid.end(), params->grid);
  std::copy(work->call.block.begin(), work->call.block.end(), params->block);
  HEDDLE_END
  HEDDLE_FAKE(kernel_node_set, api::GraphExec exec, api::GraphNode node,
              const api::KernelNodeParams* params)
  auto* graph = unwrap<api::GraphExec, FakeGraph>(exec);
  const auto at = std::find(graph->nodes.begin(), graph->nodes.end(), node);
  if (at == graph->nodes.end()) return kInvalidValue;
  FakeDriver::Work& work = *graph->work[static_cast<std::size_t>(at - graph->nodes.begin())];
  if (work.function != params->function) return kInvalidValue;
  FakeDriver::Call call = work.call;
  std::copy(params->grid, params->grid + 3, call.grid.begin());
  call.maps.clear();
  FakeDriver::Work changed = work_of(d, std::move(call), params->params);
  changed.function = work.function;
  work = std::move(changed);
  HEDDLE_END
  HEDDLE_FAKE(graph_destroy, api::GraphHandle graph)
  d.owned_.erase(unwrap<api::GraphHandle, FakeGraph>(graph));
  --d.graphs;
  HEDDLE_END
  HEDDLE_FAKE(graph_upload, api::GraphExec, api::StreamHandle)
  (void)d;
  HEDDLE_END
  HEDDLE_FAKE(graph_launch, api::GraphExec exec, api::StreamHandle stream)
  const auto work = unwrap<api::GraphExec, FakeGraph>(exec)->work;
  for (const auto& w : work) d.enqueue(stream, *w);
  HEDDLE_END
  HEDDLE_FAKE(graph_exec_destroy, api::GraphExec exec)
  d.owned_.erase(unwrap<api::GraphExec, FakeGraph>(exec));
  --d.graphs;
  HEDDLE_END
};

FakeDriver::FakeDriver() {
  the_driver = this;
  device = {.index = 0,
            .name = "NVIDIA H200",
            .major = 9,
            .minor = 0,
            .sms = 132,
            .warp_size = 32,
            .threads_per_block = 1024,
            .threads_per_sm = 2048,
            .blocks_per_sm = 32,
            .registers_per_sm = 65536,
            .smem_per_block = 48 << 10,
            .smem_per_block_optin = 227 << 10,
            .smem_per_sm = 228 << 10,
            .smem_reserved = 1 << 10,
            .l2_bytes = 60 << 20,
            .clock_khz = 1980000,
            .memory_clock_khz = 3201000,
            .memory_bus_bits = 6144};
#define HEDDLE_FAKE_SET(name, parameters, symbol) api_.name = FakeFunctions::name;
  HEDDLE_CUDA_DRIVER_FUNCTIONS(HEDDLE_FAKE_SET)
#undef HEDDLE_FAKE_SET
  api_.tensor_map_encode = FakeFunctions::tensor_map_encode;
  api_.tensor_map_encode_windows = FakeFunctions::tensor_map_encode_windows;
  api_.kernel_node_get = FakeFunctions::kernel_node_get;
  api_.kernel_node_set = FakeFunctions::kernel_node_set;
}

FakeDriver::~FakeDriver() {
  for (const auto& [block, bytes] : blocks) std::free(memory_of(block));
  for (const auto& [block, bytes] : pinned) std::free(block);
  the_driver = nullptr;
}

}  // namespace heddle::cuda
