// A compiled function, ready to call.
//
//   kernel(a, b, bias, d);      // NDArrays, one per argument, in the order given to build()
//   std::cout << kernel.source();
//
// Calls check the number, shapes and types of their arguments, and are safe from several threads at
// once. Values that depend only on constant arguments (packed weights) are computed at the first
// call with those arrays and kept for the last four sets of them. Call `refresh()` after changing
// their contents. Constants whose values were known to build() (dsl/arrays.h) are not arguments:
// the kernel supplies them.
//
// A kernel for a GPU takes arrays that live on that GPU, and its calls return when the work is on
// the thread's current stream (cuda.h). Called with arrays that all live on the CPU, it copies them
// to the GPU, runs, and copies the outputs back. That is right but slow.
#pragma once

#include <array>
#include <cstdint>
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
struct KernelRuntime;

/// A size that a call gives by the shapes of its arrays, such as 1 to 4096. The sizes that kernels
/// take are those of the declaration's dimensions divided by their multiples.
struct KernelSize {
  std::string name;
  int64_t lo = 0, hi = 0;
};

/// An extent of an argument that depends on sizes: constant + sum of factor * size.
struct SymbolicExtent {
  struct Term {
    int size = 0;  ///< position among the sizes of the kernel
    int64_t factor = 1;
  };
  int dim = 0;  ///< dimension of the argument
  int64_t constant = 0;
  std::vector<Term> terms;
};

/// The description of one argument of a kernel.
struct KernelArg {
  std::string name;
  DataType dtype;
  std::vector<int64_t> shape;  ///< -1: any extent, or one that `symbolic` describes
  bool output = false;
  bool constant = false;
  bool only_prepared = false;  ///< a constant that calls do not read once it is prepared
  int alignment = 0;  ///< alignment in bytes of its address on a GPU; 0: the size of its type
  std::vector<SymbolicExtent> symbolic = {};
};

/// An argument that the kernel passes itself.
struct BoundConstant {
  KernelArg arg;
  NDArray array;
};

/// The peak rates of a machine for the kind of work of a kernel; 0: not known.
struct Roof {
  double flops_per_second = 0, bytes_per_second = 0;
};

/// The least work of a call, for profiles: arithmetic, and the bytes of inputs and outputs that
/// must move. `roof` is called when a profile is taken, because it may measure. It may be empty.
struct KernelWork {
  double flops = 0, bytes = 0;
  std::function<Roof()> roof;
};

/// The report of a kernel that checks for NaN and infinity (BuildOptions::check_finite): one row
/// for each checked argument, in an array of i64 that is passed after all others.
struct FiniteReport {
  std::vector<int> args;  ///< position of each row's argument among `args`, then `bound`
  /// Elements of a row; 0: the kernel checks nothing. Each is 2 * i for a NaN and 2 * i + 1 for an
  /// infinity at the flat index i, the least that one thread found, or kNothing.
  int64_t slots = 0;
  static constexpr int64_t kNothing = INT64_MAX;
};

/// The parts of a Kernel, filled by the compiler or by the loader of exported kernels.
struct KernelCode {
  using Entry = int (*)(void* const* args);
  std::string name;
  std::vector<KernelArg> args;
  std::vector<BoundConstant> bound;    ///< passed after `args`
  std::vector<KernelArg> persistent;   ///< passed after those; computed by `prepare`
  std::vector<KernelSize> sizes = {};  ///< i64 values that `main` takes after all pointers
  Entry main = nullptr;
  Entry prepare = nullptr;  ///< takes the constant arguments, then `persistent`; may be null
  /// The key of the code of `prepare`, which with equal constants computes equal values. Empty
  /// where it is not known.
  std::string prepare_key = {};
  /// Whether values of a known key are kept on the disk (runtime/kernel/prepared_store.h).
  bool prepared_on_disk = false;
  std::shared_ptr<void> code;  ///< keeps the machine code alive
  /// Set in place of `main` and `prepare` for a kernel that runs on a GPU (cuda_program.h).
  std::shared_ptr<const cuda::Program> cuda;
  /// Text of the kernel in some form ("llvm", "asm", "loops", ...); may be null.
  std::string (*source)(const void* context, const std::string& form) = nullptr;
  std::shared_ptr<void> source_context;
  KernelWork work = {};
  FiniteReport finite = {};
  /// Checks the arrays of each call before it runs; may be empty (BuildOptions::check_indices).
  std::function<void(std::span<const NDArray>)> before = {};
};

/// A compiled function that checks its arguments. A copy of the object shares code and
/// prepared values.
class Kernel {
 public:
  Kernel() = default;
  explicit Kernel(KernelCode code);
  /// The same code without prepared values. Where one kernel serves several layers, the clone of
  /// each layer keeps its own packed weights. Plain copies share the prepared values.
  Kernel clone() const;
  /// Lets this kernel and its copies keep the prepared values of `other` as their own, so that they
  /// are in memory once. Call it before the first call. It does nothing and returns false unless
  /// both prepare the same values in the same way, as kernels of one declaration do that differ in
  /// other respects. Afterwards a refresh of one is a refresh of both.
  bool share_prepared(const Kernel& other) const;

  template <class... A>
  void operator()(const A&... arrays) const {
    const std::array<NDArray, sizeof...(A)> list = {NDArray(arrays)...};
    call(list);
  }
  /// Throws a Runtime error that names the argument for a wrong count, shape or type, or when
  /// memory for temporaries could not be had.
  void call(std::span<const NDArray> arrays) const;
  /// Computes the values that depend on constant arguments only, so that the first call takes no
  /// longer than others. Arrays that are not constant may be undefined handles.
  void prepare(std::span<const NDArray> arrays) const;
  /// The same for a kernel that supplies all its constants itself. Throws a User error for others.
  /// On a GPU it prepares for the first device.
  void prepare() const;
  /// The values derived from constant arguments that calls with these arrays use (packed weights),
  /// and the constants that the kernel supplies itself. Missing values are prepared. Empty for a
  /// kernel for a GPU.
  std::vector<NDArray> prepared(std::span<const NDArray> arrays) const;
  /// Measures where the time of a call with these arrays is spent. It runs the kernel for about
  /// `seconds`.
  Profile profile(const std::vector<NDArray>& arrays, double seconds = 1) const;
  /// Discards the values that were derived from constant arguments. The next calls compute them
  /// anew.
  void refresh() const;

  const std::string& name() const;
  const std::vector<KernelArg>& args() const;
  /// The sizes that calls give, for a declaration over dimensions (dsl/dim.h); empty for others.
  const std::vector<KernelSize>& sizes() const;
  /// The constants that the kernel supplies itself.
  const std::vector<BoundConstant>& bound() const;
  const KernelWork& work() const;
  /// The program for the GPU; null for a kernel of the CPU.
  const cuda::Program* cuda_program() const;
  /// Whether the kernel keeps values derived from constant arguments (packed weights).
  bool has_persistent() const;
  /// The bytes of one set of those values; 0 where there are none.
  int64_t persistent_bytes() const;
  /// The kernel as text: "llvm" (LLVM IR, the default), "asm" or "loops"; for a GPU "cuda".
  std::string source(const std::string& form = "llvm") const;
  explicit operator bool() const { return static_cast<bool>(impl_); }

 private:
  friend KernelRuntime& runtime_of(const Kernel& kernel);  // runtime/kernel/kernel_impl.h
  struct Impl;
  Impl& impl() const;  // throws when there is none
  std::shared_ptr<Impl> impl_;
};

}  // namespace heddle
