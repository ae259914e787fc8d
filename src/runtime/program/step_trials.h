// Steps with two variants that settle in real calls which of them they run.
#pragma once

#include <atomic>
#include <functional>
#include <mutex>
#include <vector>

#include "heddle/runtime/ndarray.h"
#include "heddle/support/function_ref.h"
#include "runtime/program/selector.h"

namespace heddle {

struct ProgramStep;

struct TrialOptions {
  /// Gets a step that is settled, the winner, and the seconds of both variants in turns.
  using Settled = std::function<void(size_t step, size_t winner,
                                     const std::vector<std::vector<double>>& seconds)>;
  Settled settled = {};
  /// Times a run of a variant, which is the given function, in seconds. It is for tests. Empty: the
  /// steady clock, or events on a GPU.
  std::function<double(size_t step, size_t variant, FunctionRef<void()> run)> time = {};
};

/// The two variants of each of these steps take turns, each in a call of its own, so that they are
/// timed with the caches and the memory of real calls. The first stays unless the second is clearly
/// faster. One call at a time is measured; others run what the selectors say.
class StepTrials {
 public:
  static constexpr int kWarm = 2,
                       kRounds = 10;  ///< calls of each variant: not counted, and counted

  /// `steps` are those of the program; `open` are positions among them.
  StepTrials(std::vector<ProgramStep>& steps, const std::vector<size_t>& open,
             TrialOptions options);

  bool open() const { return open_.load(std::memory_order_relaxed); }
  /// Runs all steps of a call by `run_step` and times those that are open. Does nothing and returns
  /// false where none is, while another call is measured, and while a CUDA graph is captured.
  bool run(Device where, FunctionRef<void(size_t step, size_t variant)> run_step);

 private:
  double timed(size_t step, size_t variant, Device where, FunctionRef<void()> run) const;
  void decide();

  std::vector<ProgramStep>& steps_;
  const TrialOptions options_;
  std::mutex mutex_;
  std::vector<std::vector<std::vector<double>>> seconds_;  ///< by step; empty where none is open
  int calls_ = 0;
  std::atomic<bool> open_{true};
};

}  // namespace heddle
