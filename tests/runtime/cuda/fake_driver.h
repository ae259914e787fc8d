// A CUDA driver for tests: memory is the host's, a kernel is a C++ function that runs at its
// launch, and calls are recorded. Streams run at once, in the order of calls. A captured stream
// keeps its work for the graph, and is isolated: it can wait neither for the host nor for events
// from outside, and no thread may allocate or wait in the mode that CUDA's captures begin with.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "runtime/cuda/state.h"

namespace heddle::cuda {

/// One at a time: the functions of the driver's table know no object.
class FakeDriver {
 public:
  /// What a tensor map was made of, innermost dimension first.
  struct Map {
    int type = 0, swizzle = 0;
    void* address = nullptr;
    std::vector<unsigned long long> extents, strides;
    std::vector<unsigned> box;
    std::vector<int> lower = {}, upper = {};  ///< corners of windows
    std::vector<unsigned> steps = {};
  };
  struct Call {
    std::string kernel;
    std::vector<unsigned> grid, block;
    unsigned smem = 0, cluster = 1;
    const void* stream = nullptr;
    std::vector<Map> maps = {};
    bool overlaps = false;
  };
  /// Gets the parameters: pointers, as many as `buffers` of the kernel, then its sizes.
  using Body = std::function<void(std::vector<void*> parameters)>;
  struct Kernel {
    std::size_t buffers = 0;
    Body body;
    std::size_t maps = 0;   ///< tensor maps behind the buffers
    std::size_t sizes = 0;  ///< sizes behind the maps
    /// Seconds of a launch by the clock of the events; empty: kernel_s.
    std::function<double(const Call& call)> seconds = {};
  };

  /// Something in a stream. Of a launch also what it is.
  struct Work {
    std::function<void()> run;
    api::FunctionHandle function = nullptr;  ///< null: no launch
    Call call = {};
  };

  FakeDriver();
  ~FakeDriver();
  FakeDriver(const FakeDriver&) = delete;
  FakeDriver& operator=(const FakeDriver&) = delete;
  const api::Api& api() const { return api_; }

  // What the test sets.
  DeviceInfo device;
  int device_count = 1;
  std::map<std::string, Kernel> kernels;       // what every module has
  std::map<std::string, api::Result> failing;  // by the name in api::Api: what it answers
  std::size_t memory = std::size_t{1} << 30;
  bool any_kernel = false;  // kernels that nobody named do nothing, in a time that blocks share
  bool hangs = false;       // events never become ready
  // Work on kernels and pinned memory is done when something waits for it, and not at once. What is
  // in streams is then done in the order of the calls, but streams other than the default one run ahead as far as the
  // events that they wait for allow.
  bool late = false;
  double kernel_s = 1e-5;  // of a launch, by the clock of the events

  // What it saw.
  int inits = 0;
  std::vector<Call> launches;        // those that ran
  std::map<std::string, int> calls;  // of functions, by the name in api::Api
  std::size_t used = 0;              // bytes
  std::map<api::DevicePtr, std::size_t> blocks;
  std::map<void*, std::size_t> pinned;  // blocks of the CPU
  std::map<std::string, int> smem_asked;
  std::vector<Map> maps;                                 // that were encoded
  int modules = 0, streams = 0, events = 0, graphs = 0;  // alive
  int uses_of_gone_streams = 0;

 private:
  friend struct FakeFunctions;
  /// Keeps what a handle stands for: nobody destroys the handles of a context that is lost.
  template <class T>
  T* own(T* object) {
    owned_.emplace(object,
                   std::shared_ptr<void>(object, [](void* p) { delete static_cast<T*>(p); }));
    return object;
  }
  std::map<void*, std::shared_ptr<void>> owned_;
  struct Stream {
    int capture = 0;            // its number; 0: none
    bool strict = false;        // forbids unsafe calls of threads that are not in the relaxed mode
    std::size_t waits_for = 0;  // how much of what is late has to be done before its next work
    std::vector<std::shared_ptr<Work>> captured;
  };
  api::Api api_;
  double now_s_ = 0;
  std::vector<std::function<void()>> late_;
  std::size_t done_ = 0;  // of what was ever late
  api::Context current_ = nullptr;
  int last_capture_ = 0, captures_ = 0, strict_captures_ = 0;
  int thread_mode_ = 0;  // CU_STREAM_CAPTURE_MODE_GLOBAL

  int capture_of(api::StreamHandle stream) const;
  bool fails(const char* name, api::Result& result);
  /// Runs it, or keeps it where the stream is captured.
  void enqueue(api::StreamHandle stream, Work work);
  /// A copy between the GPU and memory of the CPU, which waits where that is not pinned.
  void enqueue_copy(api::StreamHandle stream, const void* of_cpu, std::function<void()> copy);
  /// Does what is late.
  void finish();
  /// How much of what is late has to be done before later work of the stream.
  std::size_t work_before(api::StreamHandle stream) const;
  bool is_pinned(const void* address) const;
};

}  // namespace heddle::cuda
