// MultiKernel: several variants of one function behind one callable, the right one for each call.
//
//   MultiKernel kernel = build_multi({fast_for_many_rows, fast_for_few}, {A, B, C});
//   kernel(a, b, c);                                  // the first call measures, later ones do not
//   std::cout << kernel.picks()[0].picked;            // and why: PickRow
//
// A variant is picked once for the shapes of a call, by the first of these that gives an answer:
//   1. force(), PickOptions::force, or the environment variable HEDDLE_PICK. It is the name of a
//      variant, or a list such as "dense=split_k,softmax=static" of kernels and their variants;
//   2. PickOptions::choose, a function of the shapes;
//   3. the store of picks (pick_store.h), if the code of all variants is known and the pick is
//      from this machine and this build;
//   4. measuring, where PickOptions::measure is set;
//   5. the first variant, the static choice.
//
// Measuring times the variants in turn, on copies of what they write. Their answers are compared
// with those of the first variant, and one that differs by more than the tolerance is dropped with
// a message. Measuring needs no more extra memory and time than the options allow.
//
// Calls are safe from several threads. Calls that come while a pick is made wait for it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "heddle/runtime/kernel.h"
#include "heddle/runtime/pick_row.h"
#include "heddle/runtime/pick_store.h"
#include "heddle/support/function_ref.h"

namespace heddle {

/// One way to compute the function. It has `compile` or `function`.
struct KernelVariant {
  std::string name;
  /// Its arguments, in the order of calls. An extent of -1 matches any extent.
  std::vector<KernelArg> args;
  /// Makes the kernel when it is first needed. If it throws, the variant is dropped.
  std::function<Kernel()> compile = {};
  /// Code of the user, which runs before this returns; on a GPU, in the current stream.
  std::function<void(std::span<const NDArray>)> function = {};
  /// Identifies the code beyond this process. Variants of equal code become one. Empty: the code is
  /// not known, and no pick is remembered. For a user's function it is any text that changes with
  /// the function.
  std::string code = {};
  /// The variant reads what its outputs hold before the call (in-place arguments).
  bool reads_outputs = false;
};

/// How far two correct results may differ: |a - b| <= atol + of_largest * max|b| + rtol * |b|.
struct AnswerTolerance {
  double rtol = 1e-4, atol = 0, of_largest = 1e-4;
};

/// The description of a call for a chooser.
struct PickQuery {
  const std::string& kernel;
  const std::string& target;
  /// The arguments with the extents of the call.
  std::span<const KernelArg> args;
  /// Each extent by name: "x.0" is the first extent of argument x.
  std::vector<std::pair<std::string, double>> features;
  /// The variants that take these shapes, the static choice first.
  std::vector<std::string> variants;
};

/// How a multi-kernel picks a variant, in the order of docs/guide/multi-kernels.md.
struct PickOptions {
  /// The name of the variant to use; empty: none is forced. It precedes HEDDLE_PICK.
  std::string force = {};
  /// Returns the name of a variant, or "" where it has no answer. A decision tree is an example.
  std::function<std::string(const PickQuery&)> choose = {};
  bool measure = true;
  /// Seconds after which measuring ends, compilation included. A running call is not interrupted,
  /// so measuring may last longer by one call or one compilation.
  double seconds = 2;
  /// Nothing is measured where that would need more than this number of bytes beyond the arguments.
  int64_t extra_bytes = int64_t{1} << 30;
  /// The store where picks are looked up and remembered; null: none.
  std::shared_ptr<const PickStore> store = PickStore::standard();
  /// Every pick appends a line to this file, a PickRow in JSON. Empty: the file that
  /// HEDDLE_PICK_LOG names.
  std::string log = {};
  /// Gets messages about dropped variants and picks that are no longer valid. Empty: they go to
  /// stderr.
  std::function<void(const std::string&)> message = {};
  /// Times one call of a variant, which is the given function, in seconds. It is for tests and for
  /// devices with their own clocks. Empty: the steady clock, or events on a GPU.
  std::function<double(const std::string& variant, FunctionRef<void()> call)> time_call = {};
};

/// The properties that the variants share. build_multi fills it in.
struct MultiKernelFacts {
  std::string name = "kernel";
  std::string target = {};   ///< of the code, as text
  bool on_gpu = false;       ///< the code is for a GPU
  std::string machine = {};  ///< fingerprints: a stored pick with others is not valid
  std::string build = {};
  std::vector<AnswerTolerance> tolerances = {};  ///< one for each output; missing: the default
};

/// Several variants of one function behind one callable, of which each shape uses one.
class MultiKernel {
 public:
  MultiKernel() = default;
  /// The variants must take the same arguments, by position, name and type. Their extents may
  /// differ. Throws a User error where they do not, where a name occurs twice, and where there is
  /// no variant.
  MultiKernel(MultiKernelFacts facts, std::vector<KernelVariant> variants,
              PickOptions options = {});

  template <class... A>
  void operator()(const A&... arrays) const {
    const std::array<NDArray, sizeof...(A)> list = {NDArray(arrays)...};
    call(list);
  }
  /// Runs the variant that is picked for these shapes. Throws what Kernel::call throws, and a
  /// Runtime error where no variant takes these shapes.
  void call(std::span<const NDArray> arrays) const;

  /// Picks for these arrays without a call. Their outputs may be overwritten by measuring.
  PickRow pick(std::span<const NDArray> arrays) const;
  /// The picks of this process, in the order in which they were made; of many thousands the last.
  std::vector<PickRow> picks() const;
  /// Forces a variant; "" ends that. Throws a User error for a name that no variant has.
  void force(const std::string& variant) const;
  /// Forgets the picks, so that the next calls pick again. Those in the store are kept.
  void forget() const;

  const std::string& name() const;
  /// The arguments. Extents in which variants differ are -1.
  const std::vector<KernelArg>& args() const;
  std::vector<std::string> variants() const;
  /// The kernel of a variant, compiled if that was not done yet. Throws a User error for an unknown
  /// name, and for a function.
  Kernel kernel(const std::string& variant) const;
  explicit operator bool() const { return static_cast<bool>(impl_); }

 private:
  struct Impl;
  Impl& impl() const;  // throws when there is none
  std::shared_ptr<Impl> impl_;
};

}  // namespace heddle
