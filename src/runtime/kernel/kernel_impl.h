// The implementation of a kernel: its code, the constants that it supplies, and what it prepared.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "runtime/array/deferred.h"
#include "runtime/cuda/device_calls.h"
#include "runtime/cuda/executable.h"
#include "runtime/kernel/memory_ranges.h"
#include "support/recent.h"

namespace heddle {

/// The results of `prepare` for one set of constant arrays.
struct Prepared {
  /// The constants are kept alive, so that no other array can get the same address.
  std::vector<NDArray> constants;
  std::vector<NDArray> arrays;
};
using PreparedRef = std::shared_ptr<const Prepared>;

/// What one kernel, or several that share it, have prepared.
struct PreparedSets {
  std::mutex mutex;
  /// Those of a few sets of constants, for callers that alternate between sets of weights.
  Recent<PreparedRef> sets{4};
  uint64_t refreshes = 0;

  /// What was prepared for the constants among `arrays`; null where that was not done yet.
  PreparedRef find(std::span<const KernelArg> args, std::span<const NDArray> arrays);
};

/// What runs the code of a kernel.
struct KernelRuntime {
  std::shared_ptr<const KernelCode> code;
  std::shared_ptr<const cuda::Executable> cuda;  ///< set for kernels for a GPU
  std::unique_ptr<cuda::DeviceCalls> staged;     ///< its calls with arrays of the CPU
  std::vector<NDArray> bound;  ///< the constants that the kernel supplies, on the CPU
  MemoryRanges bound_memory;   ///< of these
  std::mutex mutex;            ///< never held while code runs, which may wait for the thread pool
  std::shared_ptr<PreparedSets> prepared = std::make_shared<PreparedSets>();
  /// The bound constants on each device where they were needed, by the index of the GPU.
  std::map<int, std::shared_ptr<const std::vector<NDArray>>> bound_on_gpu;
  uint64_t refreshes = 0;

  size_t num_args() const { return code->args.size() + bound.size(); }
  bool checks_finite() const { return code->finite.slots > 0; }
  bool has_prepare() const { return cuda ? cuda->has_prepare() : code->prepare != nullptr; }
  /// The parameters of the code: arguments, constants that the kernel supplies, persistent buffers,
  /// the report of checks, and for a CPU the sizes.
  size_t num_parameters() const {
    return num_args() + code->persistent.size() + (checks_finite() ? 1 : 0) + code->sizes.size();
  }

  /// The address that a call passes for an argument. Constants of a file are read where the call
  /// needs them.
  static void* address_for(const KernelArg& arg, const NDArray& array) {
    if (arg.only_prepared) return array.address();
    return arg.output ? array.data() : internal::kept(array);
  }

  /// Runs the code. `parameters` begins with the addresses of the arguments, which were checked, and
  /// has room for num_parameters(). Of `arrays`, the arguments, only constants are looked at.
  /// `report` is where a kernel that checks for NaN and infinity reports them. `scratch` is for its
  /// workspaces on a GPU (cuda::Executable::run).
  void run(void** parameters, std::span<const int64_t> sizes, std::span<const NDArray> arrays,
           Device device, void* report = nullptr, char* scratch = nullptr);
  /// Runs the code, and its checks of elements, on arrays of `device` whose types and shapes were
  /// checked.
  void call(std::span<const NDArray> arrays, std::span<const int64_t> sizes, Device device);

  /// The constants that the kernel supplies, copied to a GPU.
  std::shared_ptr<const std::vector<NDArray>> bound_on(Device device);
  /// The persistent buffers for the constants among `arrays`, on the device where the kernel runs.
  PreparedRef prepare(std::span<const NDArray> arrays, Device device);

 private:
  void run_on_gpu(void** parameters, std::span<const int64_t> sizes,
                  std::span<const NDArray> arrays, Device device, void* report, char* scratch);
  [[noreturn]] void throw_out_of_memory() const;
  void run_prepare(Prepared& p, Device device);
  void prepare_on_cpu(Prepared& p) const;
};

/// The runtime of a kernel, which its copies share.
KernelRuntime& runtime_of(const Kernel& kernel);

/// What a kernel is called with as a step of a program, which checked it. An input and an output may
/// lie in one memory, which the program updates in place.
struct StepArgs {
  std::vector<NDArray> arrays;  ///< all on the device where the kernel runs
  std::vector<int64_t> sizes;   ///< those that the kernel takes; its arrays need not give them
  int64_t runs = 1;  ///< in a call: the turns of a loop; the arrays are those of the first
};

void call_checked(const Kernel& kernel, std::span<const NDArray> arrays,
                  std::span<const int64_t> sizes);

}  // namespace heddle
