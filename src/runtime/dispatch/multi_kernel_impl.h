// The implementation of a multi-kernel: its variants, and how one of them is picked.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "heddle/runtime/multi_kernel.h"
#include "runtime/dispatch/pick_race.h"
#include "runtime/program/selector.h"

namespace heddle {

struct VariantState {
  KernelVariant variant;
  size_t same_as = 0;  ///< the first variant of equal code, often itself
  Kernel kernel;       ///< once it is compiled, which is before it is picked
};

/// An extent in which calls may differ.
struct FreeExtent {
  size_t arg = 0, dim = 0;
};

struct MultiKernel::Impl {
  MultiKernelFacts facts;
  std::vector<KernelArg> args;
  PickOptions options;
  std::vector<VariantState> variants;
  std::vector<FreeExtent> free;  ///< the sizes of the selector
  Selector selector;
  std::atomic<const char*> forced_by{""};  ///< for messages
  std::mutex rows_mutex;  ///< guards the rows, and that they are those of the picks; held briefly
  std::vector<PickRow> rows;
  std::mutex compile_mutex;
  std::timed_mutex settling;  ///< held while a pick is made
  std::atomic<std::thread::id> settler{};

  std::vector<std::string> names() const;
  /// Throws a User error for an unknown name.
  size_t index_of(const std::string& variant) const;
  /// Reads PickOptions::force or HEDDLE_PICK.
  void read_forced();

  Kernel compiled(size_t variant);
  /// That of a variant which another thread may be compiling; empty where it is not compiled.
  Kernel made(size_t variant);
  /// The arguments with the extents of these arrays, as far as their ranks are right.
  std::vector<KernelArg> args_at(std::span<const NDArray> arrays) const;
  /// The variant that was picked for the extents of these arrays; -1 where there is none, or where
  /// they are too few or of too few dimensions.
  int picked(std::span<const NDArray> arrays) const;
  /// Runs a variant that was picked.
  void run(size_t variant, std::span<const NDArray> arrays) const;
  /// Picks a variant for these arrays. `variant`, where given, receives what the call runs.
  PickRow settle(std::span<const NDArray> arrays, size_t* variant);

 private:
  /// A call for which a pick is made.
  struct Call {
    std::span<const NDArray> arrays;
    Device device;
    std::vector<KernelArg> args;     ///< with the extents of the call
    std::vector<size_t> applicable;  ///< variants that take it, of different code
    std::string shapes;
    std::string key;
    int forced = -1;  ///< the variant that was forced when the pick began
  };
  PickRow settle_locked(const Call& call, size_t* variant);
  /// Each function picks a variant for one reason and fills in the row; -1 where the reason does
  /// not apply.
  int pick_forced(const Call& call, PickRow& row) const;
  int pick_chosen(const Call& call, PickRow& row) const;
  int pick_remembered(const Call& call, PickRow& row, bool say_why) const;
  int pick_measured(const Call& call, PickRow& row);
  int measure(const Call& call, PickRow& row);
  void keep(const Call& call, const PickRow& row, size_t variant);
  int applicable_index(const Call& call, const std::string& variant) const;
  void say(const std::string& text) const;
  void log(const PickRow& row) const;
  std::string key_of(const Call& call) const;
};

}  // namespace heddle
