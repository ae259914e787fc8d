// NVIDIA GPUs: devices, streams, events, modules, graphs; on the driver API, which is looked for
// when something of it is first asked for. Nothing links with CUDA, and a machine without a GPU
// runs everything else.
//
//   NDArray a = NDArray::random({4096}, f32, 1).to_device(Device::cuda());
//   kernel(a, b);                                   // on the current stream; returns at once
//   NDArray result = b.to_host();                   // waits for it
//
//   cuda::Stream stream;                            // work beside that of the default stream
//   { cuda::StreamScope scope(stream); kernel(a, b); }
//   stream.synchronize();
//
//   cuda::Graph graph = cuda::capture([&] { first(a, b); second(b, c); });
//   graph.launch();                                 // both kernels, with one call
//
// The current stream of a thread is CUDA's default stream unless a StreamScope says otherwise; that
// is where PyTorch works, too, and our context is the device's primary one, as PyTorch's is. Memory
// comes from a pool of ours (plain cuMemAlloc): an array's block is reused in the order of the
// stream on which it was created; synchronize before dropping one that another stream still uses.
//
// Failures are Runtime errors with CUDA's name and text of them and, where a kernel is concerned,
// its name. After an illegal access and the like the context is lost: everything that follows in
// this process fails with that reason. A process that used CUDA and then forks has no CUDA in the
// child; devices(), available() and Target::cuda() alone do not count as use.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/runtime/device.h"
#include "heddle/support/function_ref.h"

namespace heddle::cuda {

// ---- devices
// -------------------------------------------------------------------------------------

/// What the driver says of a device. Sizes in bytes.
struct DeviceInfo {
  int index = 0;
  std::string name;          // "NVIDIA H200"
  int major = 0, minor = 0;  // the compute capability
  int sms = 0;
  int warp_size = 32;
  int threads_per_block = 0;
  int threads_per_sm = 0;
  int blocks_per_sm = 0;
  int registers_per_sm = 0;
  int smem_per_block = 0;        // without asking
  int smem_per_block_optin = 0;  // at most
  int smem_per_sm = 0;
  int smem_reserved = 0;  // of a block, for the driver
  int l2_bytes = 0;
  int clock_khz = 0;         // 0: the driver does not say
  int memory_clock_khz = 0;  // likewise
  int memory_bus_bits = 0;
  std::int64_t memory_bytes = 0;
};

/// The devices of this machine; empty where there is no driver. Asked once, of a child process, so
/// that this one can still fork afterwards.
std::vector<DeviceInfo> devices();
bool available();
/// Why devices() is empty, in words; "" where it is not.
std::string unavailable_reason();

/// Was CUDA initialised in this process? Then no process forked from it can use CUDA.
bool initialised();

/// Waits for all work on a device; throws what went wrong with it.
void synchronize(int device = 0);
/// Did an earlier failure cost this process its context on the device?
bool context_lost(int device = 0);

struct MemoryStats {
  std::int64_t used_bytes = 0;    // by arrays
  std::int64_t cached_bytes = 0;  // kept for the next ones
  std::int64_t peak_bytes = 0;    // the most that was used
};
MemoryStats memory_stats(int device = 0);
/// Gives cached memory back to the driver. Waits for the device.
void release_memory(int device = 0);

// ---- streams and events
// --------------------------------------------------------------------------

class Event;

/// A queue of work. A handle; the last one to go waits for the work and destroys the stream.
class Stream {
 public:
  /// A new one, whose work is not ordered against the default stream's.
  explicit Stream(int device = 0);
  /// The one that this thread's work on the device goes to.
  static Stream current(int device = 0);
  /// Another library's, which stays its.
  static Stream wrap(void* handle, int device = 0);

  int device() const;
  /// CUDA's CUstream; null is the default stream.
  void* handle() const;
  void synchronize() const;
  bool done() const;
  /// What comes later on this stream waits for what was before the event's record.
  void wait(const Event& event) const;

 private:
  struct Impl;
  explicit Stream(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// Another current stream for this thread until the end of the scope.
class StreamScope {
 public:
  explicit StreamScope(Stream stream);
  ~StreamScope();
  StreamScope(const StreamScope&) = delete;
  StreamScope& operator=(const StreamScope&) = delete;

 private:
  Stream stream_;
  const Stream* outer_;
};

/// A point in a stream's work, with its time. Move-only.
class Event {
 public:
  explicit Event(int device = 0);
  Event(Event&& other) noexcept;
  Event& operator=(Event&& other) noexcept;
  ~Event();

  void record(const Stream& stream) const;
  void record() const { record(Stream::current(device_)); }
  bool done() const;
  void synchronize() const;
  /// Polls; false if it is not done within the time. After that a kernel may well never end: call
  /// abandon() and let the process go.
  bool wait_for(double seconds) const;
  /// From `start` to this one, both done. Resolution about half a microsecond.
  double seconds_since(const Event& start) const;
  void* handle() const { return handle_; }

 private:
  int device_ = 0;
  void* handle_ = nullptr;
};

/// Counts the device's context as lost for this reason, so that nothing waits for it any more: not
/// the destructors of its streams and arrays, and no later call. For kernels that never end.
void abandon(int device, const std::string& reason);

// ---- code
// ----------------------------------------------------------------------------------------

/// A `__global__` function on a device. Valid as long as its Module.
class Function {
 public:
  const std::string& name() const { return *name_; }
  int registers() const;          // of a thread
  int static_smem() const;        // bytes of a block
  int local_bytes() const;        // of a thread: spills and arrays that are not in registers
  int threads_per_block() const;  // at most
  /// How many blocks of this size an SM holds at a time.
  int blocks_per_sm(int threads, int dynamic_smem) const;
  /// `params` are addresses of the parameters' values. The runtime's own path is a Kernel.
  void launch(const Stream& stream, std::array<unsigned, 3> grid, std::array<unsigned, 3> block,
              std::span<void* const> params, unsigned dynamic_smem = 0, unsigned cluster = 1) const;
  void* handle() const { return handle_; }

 private:
  friend class Module;
  int attribute(int which) const;
  void* handle_ = nullptr;
  const std::string* name_ = nullptr;
  int device_ = 0;
};

/// Machine code on a device. A handle.
class Module {
 public:
  /// A cubin for the device, or PTX. `name` is for messages.
  static Module load(std::string_view code, int device = 0, const std::string& name = "module");
  /// An `extern "C"` function; throws when there is none of this name.
  Function function(const std::string& name) const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

// ---- graphs
// --------------------------------------------------------------------------------------

/// Work that is launched with one call. A handle. It keeps the arrays and the workspaces that its
/// kernels use; the last handle to go waits for the last launch.
class Graph {
 public:
  void launch() const;  // on the current stream
  void launch(const Stream& stream) const;
  /// Moves it to the device ahead of the first launch.
  void upload(const Stream& stream) const;
  int device() const;
  /// Kernels, copies and fills in it.
  std::size_t size() const;

 private:
  friend Graph capture(FunctionRef<void()> calls, int device);
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Records what `calls` does on this thread's current stream of the device, in place of doing it:
/// calls of kernels, fills, copies within the device. Constants that a kernel has yet to prepare
/// are prepared on the spot. What waits for the GPU (copies to the CPU) throws.
Graph capture(FunctionRef<void()> calls, int device = 0);

}  // namespace heddle::cuda
