// Calls a network with one of several schedules of each task, and times its nodes.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "network/race/call_timer.h"
#include "network/race/variant_race.h"
#include "network/run/network_kernel_impl.h"
#include "network/run/output_difference.h"

namespace heddle::network {

/// Holds kernels for several schedules of each task of a network, in one memory plan. Each node
/// keeps packed weights of its own for each of its kernels. Inputs are random, and so are constants
/// without values. Nodes for a GPU that share launches are not supported.
class VariantRunner {
 public:
  /// `schedules` are by task, the static choice first. Compiles until `clock` expires, the static
  /// choices first, then the others in the order of `priority` (tasks). Schedules that do not fit
  /// into the memory, or are not compiled in time, are left out. Throws a Runtime error when a
  /// static choice could not be compiled in time.
  VariantRunner(const Network& network, std::span<const std::vector<Schedule>> schedules,
                std::span<const size_t> priority, const TuneClock& clock);
  ~VariantRunner();

  /// The available variants of each task, as positions in the constructor's `schedules`.
  const std::vector<std::vector<int>>& available() const { return available_; }
  /// Times a call. `variants` has an index into available() for each task, or kTwice.
  VariantTimes call(std::span<const int> variants);
  /// The differences between the outputs and updated inputs of these variants and those of the static
  /// choice that rounding does not explain; "" where there are none.
  std::string difference(std::span<const int> variants) const;

 private:
  void prepare(size_t task, const Kernel& kernel);
  std::vector<StepCall> parts_of(std::span<const int> variants) const;
  /// What one call with these variants computes.
  std::vector<NDArray> results(std::span<const int> variants, uint64_t seed) const;
  size_t task_of(size_t node) const { return static_cast<size_t>(network_.nodes()[node].task); }

  const Network network_;
  NetworkKernel kernel_;  ///< of the static choices
  std::vector<NDArray> arrays_, outputs_;
  StateCopies states_;
  std::vector<std::vector<int>> available_;
  std::vector<std::vector<Kernel>> steps_;  ///< kernels by node and by variant of its task
  std::unique_ptr<Program::StepCalls> of_steps_;
  std::unique_ptr<CallTimer> timer_;
};

}  // namespace heddle::network
