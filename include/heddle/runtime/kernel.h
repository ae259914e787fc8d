// A compiled function, ready to call.
//
//   kernel(a, b, bias, d);      // NDArrays, one per argument, in the order given to build()
//   std::cout << kernel.source();
//
// Calls check number, shape and type, and are safe from several threads at once. What depends only
// on constant arguments (packed weights) is computed at the first call with those arrays and kept
// for the last four sets of them; `refresh()` after changing their contents. Constants whose values
// were known to build() (dsl/arrays.h) are no arguments: the kernel supplies them.
//
// A kernel for a GPU takes arrays that live on that GPU, and its calls return when the work is on
// the thread's current stream (cuda.h). Called with arrays that all live on the CPU it copies them
// to the GPU, runs, and copies the outputs back: right, and slow.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/ndarray.h"

namespace heddle {

namespace cuda {
struct Program;
}

struct Profile;  // runtime/profile.h

struct KernelArg {
  std::string name;
  DataType dtype;
  std::vector<int64_t> shape;
  bool output = false;
  bool constant = false;
  int alignment = 0;  ///< bytes that its address on a GPU is a multiple of; 0: as its type
};

/// An argument that the kernel passes itself.
struct BoundConstant {
  KernelArg arg;
  NDArray array;
};

/// What a machine can do at best with a kernel's kind of work; 0: not known.
struct Roof {
  double flops_per_second = 0, bytes_per_second = 0;
};

/// What a call has to do at least, for profiles: arithmetic, and bytes of inputs and outputs that
/// must move. `roof`, which may measure, is asked when a profile is wanted; it may be empty.
struct KernelWork {
  double flops = 0, bytes = 0;
  std::function<Roof()> roof;
};

/// What makes a Kernel; filled by the compiler (or by an exported kernel's loader).
struct KernelCode {
  using Entry = int (*)(void* const* args);
  std::string name;
  std::vector<KernelArg> args;
  std::vector<BoundConstant> bound;   ///< passed after `args`
  std::vector<KernelArg> persistent;  ///< passed after those; computed by `prepare`
  Entry main = nullptr;
  Entry prepare = nullptr;     ///< takes the constant arguments, then `persistent`; may be null
  std::shared_ptr<void> code;  ///< keeps the machine code alive
  /// In place of `main` and `prepare`: the kernel runs on a GPU (cuda_program.h).
  std::shared_ptr<const cuda::Program> cuda;
  /// Text of the kernel in some form ("llvm", "asm", "loops", ...); may be null.
  std::string (*source)(const void* context, const std::string& form) = nullptr;
  std::shared_ptr<void> source_context;
  KernelWork work = {};
};

class Kernel {
 public:
  Kernel() = default;
  explicit Kernel(KernelCode code);
  /// The same code with nothing prepared: where one kernel serves several layers, each layer's
  /// clone keeps its own packed weights. Plain copies share what was prepared.
  Kernel clone() const;

  template <class... A>
  void operator()(const A&... arrays) const {
    const std::array<NDArray, sizeof...(A)> list = {NDArray(arrays)...};
    call(list);
  }
  /// Throws a Runtime error that names the argument for a wrong count, shape or type, or when
  /// memory for temporaries could not be had.
  void call(std::span<const NDArray> arrays) const;
  /// Computes what depends on constant arguments only, as the first call with them would: that call
  /// then takes no longer than others. Arrays that are not constant may be undefined here.
  void prepare(std::span<const NDArray> arrays) const;
  /// The same for a kernel that supplies all its constants itself; else a User error. On a GPU, for
  /// the first device.
  void prepare() const;
  /// Where the time of a call with these arrays goes: runs it for about so many seconds.
  Profile profile(const std::vector<NDArray>& arrays, double seconds = 1) const;
  /// Forget what was derived from constant arguments: the next calls compute it anew.
  void refresh() const;

  const std::string& name() const;
  const std::vector<KernelArg>& args() const;
  /// The constants that it supplies itself.
  const std::vector<BoundConstant>& bound() const;
  const KernelWork& work() const;
  /// What runs on the GPU; null for a kernel of the CPU.
  const cuda::Program* cuda_program() const;
  /// Does it keep what it derives from constant arguments (packed weights)?
  bool has_persistent() const;
  /// The kernel as text: "llvm" (LLVM IR, the default), "asm", or "loops"; of a kernel for a GPU
  /// "cuda".
  std::string source(const std::string& form = "llvm") const;
  explicit operator bool() const { return static_cast<bool>(impl_); }

 private:
  struct Impl;
  Impl& impl() const;  // throws when there is none
  std::shared_ptr<Impl> impl_;
};

}  // namespace heddle
