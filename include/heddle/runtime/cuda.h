// NVIDIA GPUs: devices, streams, events, modules and graphs, through the driver API. The driver is
// loaded at first use. Nothing links with CUDA, and all other parts run on machines without a GPU.
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
// is where PyTorch works too. The context is the primary one of the device, as in PyTorch. Memory
// comes from a pool of Heddle (plain cuMemAlloc). The block of an array is reused in the order of
// the stream on which it was created; synchronize before dropping an array that another stream
// still uses.
//
// Failures are Runtime errors with the name and text that CUDA gives them and, where a kernel is
// concerned, its name. After an error such as an illegal access the context is lost, and all later
// calls in this process fail with that reason. A process that used CUDA and then forks has no CUDA
// in the child; devices(), available() and Target::cuda() alone do not count as use.
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

// ---- devices ----

/// The properties of a device, from the driver. Sizes are in bytes.
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
  int smem_per_block = 0;        // without opting in
  int smem_per_block_optin = 0;  // the most with opting in
  int smem_per_sm = 0;
  int smem_reserved = 0;  // of each block, for the driver
  int l2_bytes = 0;
  int clock_khz = 0;         // 0: not known
  int memory_clock_khz = 0;  // likewise
  int memory_bus_bits = 0;
  std::int64_t memory_bytes = 0;
};

/// The devices of this machine; empty where there is no driver. A child process asks once, so that
/// this process can still fork afterwards.
std::vector<DeviceInfo> devices();
/// Whether this machine has a driver and a GPU that Heddle supports. Throws nothing.
bool available();
/// Why devices() is empty; "" where it is not.
std::string unavailable_reason();

/// Whether CUDA was initialised in this process. If so, processes forked from it cannot use CUDA.
bool initialised();

/// Waits for all work on a device. Throws an error if it failed.
void synchronize(int device = 0);
/// Whether this process lost its context on the device by an earlier failure.
bool context_lost(int device = 0);

/// Memory of one GPU that arrays of this process use, in bytes.
struct MemoryStats {
  std::int64_t used_bytes = 0;    // by arrays
  std::int64_t cached_bytes = 0;  // kept for later arrays
  std::int64_t peak_bytes = 0;    // the largest used_bytes so far
};
/// The statistics of GPU `device`.
MemoryStats memory_stats(int device = 0);
/// Gives cached memory back to the driver. Waits for the device.
void release_memory(int device = 0);

// ---- streams and events ----

class Event;

/// A handle to a queue of work. The last handle waits for the work and destroys the stream.
class Stream {
 public:
  /// A new stream, whose work is not ordered with that of the default stream.
  explicit Stream(int device = 0);
  /// The stream that work of this thread on the device goes to.
  static Stream current(int device = 0);
  /// A stream of another library, which keeps its ownership.
  static Stream wrap(void* handle, int device = 0);

  int device() const;
  /// CUDA's CUstream; null is the default stream.
  void* handle() const;
  /// Whether it may be gone before this handle: it is of another library, and not the default one.
  bool borrowed() const;
  void synchronize() const;
  bool done() const;
  /// Later work on this stream waits for the work before the record of the event.
  void wait(const Event& event) const;

 private:
  struct Impl;
  explicit Stream(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  std::shared_ptr<Impl> impl_;
};

/// Makes another stream current for this thread until the end of the scope.
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
  /// Polls. Returns false if the event is not done within the time. A kernel may then never end:
  /// call abandon() and end the process.
  bool wait_for(double seconds) const;
  /// The time from `start` to this event, both done. The resolution is about half a microsecond.
  double seconds_since(const Event& start) const;
  void* handle() const { return handle_; }

 private:
  int device_ = 0;
  void* handle_ = nullptr;
};

/// Marks the context of the device as lost for this reason. Destructors of its streams and arrays,
/// and later calls, do not wait for it any more. It is meant for kernels that never end.
void abandon(int device, const std::string& reason);

// ---- code ----

/// A `__global__` function on a device. Valid as long as its Module.
class Function {
 public:
  const std::string& name() const { return *name_; }
  int registers() const;          // of a thread
  int static_smem() const;        // bytes of a block
  int local_bytes() const;        // of a thread: spills and arrays that are not in registers
  int threads_per_block() const;  // at most
  /// The number of blocks of this size that an SM holds at a time.
  int blocks_per_sm(int threads, int dynamic_smem) const;
  /// `params` are the addresses of the values of the parameters. Kernels use another path.
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

/// A handle to machine code on a device.
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

// ---- graphs ----

/// A handle to work that is launched with one call. It keeps the arrays and workspaces that its
/// kernels use. The last handle waits for the last launch.
class Graph {
 public:
  void launch() const;  // on the current stream
  void launch(const Stream& stream) const;
  /// Moves the graph to the device ahead of the first launch.
  void upload(const Stream& stream) const;
  int device() const;
  /// The number of its kernels, copies and fills.
  std::size_t size() const;

 private:
  friend Graph capture(FunctionRef<void()> calls, int device);
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

/// Records the work that `calls` puts on this thread's current stream of the device, and does not
/// run it: calls of kernels, fills, copies within the device. Constants that a kernel has not yet
/// prepared are prepared at once. Work that waits for the GPU, such as a copy to the CPU, throws.
Graph capture(FunctionRef<void()> calls, int device = 0);

}  // namespace heddle::cuda
