// A program: steps, a few variants of each, what selects one of them for a call, constants, and a
// plan of the memory between steps. A network is one, and a family of kernels, which has one step. A
// kernel is the code of one variant, and alone a program of one step.
//
// A call checks its arrays once. Steps then run their kernels on addresses, without further checks.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/runtime/family_kernel.h"
#include "heddle/runtime/kernel.h"
#include "heddle/runtime/profile.h"
#include "runtime/cuda/device_calls.h"
#include "runtime/kernel/kernel_impl.h"
#include "runtime/kernel/memory_ranges.h"
#include "runtime/program/places.h"
#include "runtime/program/selector.h"
#include "runtime/program/step_trials.h"
#include "support/stack_array.h"

namespace heddle {

/// A kernel that a step may run.
struct ProgramVariant {
  Kernel kernel;
  /// Of the kernel's arguments: Argument, View, Arena, Array, Turn.
  std::vector<ProgramPlace> places;
  std::vector<size_t> sizes = {};  ///< which of those of the program the kernel takes
  ProgramPlace scratch = {};       ///< of its workspaces on a GPU; Nothing: it has its own
};

struct ProgramStep {
  std::string name;
  std::vector<ProgramVariant> variants;
  Selector selector = {};
};

/// What a program consists of.
struct ProgramParts {
  std::string name;  ///< in messages
  std::vector<KernelArg> args;
  std::vector<KernelSize> sizes = {};  ///< that calls give; empty: all extents are constant
  std::vector<ProgramStep> steps = {};
  std::vector<NDArray> arrays = {};  ///< constants that callers do not pass, on the CPU
  int64_t arena_bytes = 0;
  std::vector<ProgramView> views = {};
  std::vector<TurnPlace> turns = {};
  std::vector<ProgramLoop> loops = {};  ///< in the order of the steps
  std::vector<size_t> updated = {};     ///< positions of inputs that calls update
  bool direct = false;  ///< the kernels of the only step take the arrays of the call as they are
  /// For a GPU, whether constants that only preparations read stay there, for kernels that are
  /// called one by one.
  bool keeps_constants = true;
  /// For a GPU, how many CUDA graphs of calls are kept (cuda::DeviceCalls). 0: a call is no graph,
  /// and may be on any GPU.
  size_t graphs = 0;
};

/// A program of one step, whose kernels take the arguments and the sizes of the call.
ProgramParts one_step(const std::vector<Kernel>& kernels, SizeTree tree = {});

class Program {
 public:
  /// Kernels of one step that pack constants in the same way share them.
  explicit Program(ProgramParts parts);
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  /// Throws what Kernel::call throws.
  void call(std::span<const NDArray> arrays);
  /// Announces a call (NetworkKernel::expect).
  void expect(std::span<const NDArray> arrays);
  /// Prepares the constants of all variants, as Kernel::prepare does.
  void prepare(std::span<const NDArray> arrays);
  /// The same where callers pass no constants; a User error for others.
  void prepare();
  Profile profile(const std::vector<NDArray>& arrays, double seconds);
  void refresh();
  /// Makes all calls run this variant of each step that has it; -1 ends that.
  void force(int variant);
  /// Makes a call run this variant of one step; -1 ends that.
  void force(size_t step, int variant);
  /// Makes a step of two variants run this one where none is forced.
  void pick(size_t step, size_t variant);
  /// Lets two variants of each of these steps take turns in the next calls, until they are settled.
  /// For a program of constant extents, before calls.
  void settle(const std::vector<size_t>& steps, TrialOptions options);

  const ProgramParts& parts() const { return parts_; }
  /// Bytes of the values that its kernels derive from constants. Those that several kernels share
  /// count once.
  int64_t prepared_bytes() const;
  /// The sizes that the arrays of a call give. Throws what the call would throw.
  std::vector<int64_t> sizes_of(std::span<const NDArray> arrays) const;

  class StepCalls;

 private:
  /// Constants where steps read them: those of the program, or copies on a GPU.
  struct Constants {
    std::vector<NDArray> arrays;
    std::vector<void*> addresses;
    /// Those among the arguments of each variant; undefined handles in the places of others.
    std::vector<std::vector<NDArray>> of_variants;
  };
  /// What the calls of a variant need beside its parts.
  struct Facts {
    KernelRuntime* kernel = nullptr;
    bool prepares_arguments = false;  ///< it prepares constants that calls pass
    std::atomic<bool> read{false};    ///< the constants that its code reads are in memory
  };
  /// The memory of a call.
  struct Frame;

  void learn(const ProgramVariant& variant, Facts& facts, std::vector<NDArray>& constants);
  void learn_place(const ProgramPlace& place, const KernelArg& arg, Facts& facts, bool has_prepare);
  /// The places that this one is in some turn; itself, where it is none of turns.
  std::vector<ProgramPlace> parts_of(const ProgramPlace& place) const;
  /// How often a call runs each step.
  std::vector<int64_t> runs_of_steps(std::span<const int64_t> sizes) const;
  /// Checks the arrays, then calls, or announces the call.
  void call(std::span<const NDArray> arrays, bool expected);
  void run(std::span<const NDArray> arrays, std::span<const int64_t> sizes, Device device);
  void run_variant(const ProgramVariant& variant, size_t number, const CallAddresses& addresses,
                   std::span<const NDArray> arrays, const Frame& frame, Device device);
  StepArgs args_of(const ProgramVariant& variant, std::span<const NDArray> arrays,
                   const Frame& frame, std::span<const int64_t> sizes, int64_t runs) const;
  /// The constants of the variant, those of a call among them.
  std::vector<NDArray> constants_of(const ProgramVariant& variant, size_t number,
                                    const Frame& frame, std::span<const NDArray> arrays) const;
  /// The arguments that kernels for a GPU update or write in part.
  std::vector<size_t> kept() const;
  std::shared_ptr<const Constants> make_constants() const;
  Device device() const { return on_gpu_ ? Device::cuda() : Device::cpu(); }

  ProgramParts parts_;
  bool on_gpu_ = false;
  std::vector<size_t> first_;  ///< the number of the first variant of each step
  std::unique_ptr<Facts[]> facts_;
  std::vector<bool> is_read_;       ///< for each constant, whether the code of some step reads it
  MemoryRanges apart_;              ///< constants, which outputs may not overlap
  std::vector<KernelArg> written_;  ///< the arguments, those that calls update as outputs
  std::unique_ptr<cuda::DeviceCalls> calls_;    ///< for a GPU
  std::shared_ptr<const Constants> constants_;  ///< for a GPU once a call needed them
  std::mutex mutex_;                            ///< guards `constants_` of a GPU
  Pool<NDArray> arenas_;
  std::unique_ptr<StepTrials> trials_;  ///< where some are to be settled
};

struct Program::Frame {
  explicit Frame(Program& of);
  ~Frame();
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

  Program& program;
  NDArray arena;
  std::shared_ptr<const Constants> held;  ///< for a GPU
  const Constants* constants = nullptr;
};

/// A call by step, for kernels that are called one by one (call_checked).
class Program::StepCalls {
 public:
  StepCalls(Program& program, std::span<const NDArray> arrays);

  /// The arguments of each step, which all its variants take.
  const std::vector<StepArgs>& args() const { return args_; }
  /// Those of the call.
  const std::vector<int64_t>& sizes() const { return sizes_; }

 private:
  const Frame frame_;
  const std::vector<int64_t> sizes_;
  std::vector<StepArgs> args_;
};

}  // namespace heddle
