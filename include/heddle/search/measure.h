// Measuring candidates: safely (in worker processes), and so that the figure can be believed.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "heddle/records/record.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/schedule/template.h"

namespace heddle {

/// Floats drawn uniformly from [lo, hi).
struct InputRange {
  double lo = -1, hi = 1;
};

/// One declaration to be tuned.
struct TuneTask {
  std::string name;          ///< readable subject
  std::vector<Tensor> args;  ///< inputs and outputs in call order
  Template tmpl;             ///< of ComputeDag(outputs); carries DAG, target (threads) and options
  double weight = 1;         ///< how often the network calls it
  /// Values of the inputs (by argument position); default: uniform in [-1, 1], small integers for
  /// integer types.
  std::function<NDArray(size_t arg)> make_input = {};
  /// Of floats that are drawn otherwise than that, by argument position, where it matters what
  /// inputs are like: a network's tasks have what their producers can give. May be short.
  std::vector<std::optional<InputRange>> input_ranges = {};

  uint64_t hash() const;  ///< structural hash combined with the target: the cost model's task
  double flops() const { return tmpl.dag().total_flops(); }
};
/// The task of a declaration; args default to placeholders in order of first use, then outputs.
TuneTask make_task(std::string name, const std::vector<Tensor>& outputs, const Target& target,
                   std::vector<Tensor> args = {},
                   const AutoSchedulerOptions& options = current_auto_scheduler_options());

/// How to time. A recorded choice: `to_string` is written into every record.
struct MeasureProtocol {
  int min_repeats = 2;         ///< timed samples, after one warm-up call
  int max_repeats = 12;        ///< the leaders are raced in the end
  double min_seconds = 0.004;  ///< sampled at least so long (unless cut off)
  double max_seconds = 0.05;   ///< ... and at most so long once min_repeats are there
  double relative_ci = 0.02;   ///< enough when the 95 % interval of the median is so narrow
  double cutoff = 1.5;         ///< stop at once when slower than cutoff x best; 0: never
  /// Cold: a call finds nothing of its arguments in the caches. On a CPU (default: warm) a buffer
  /// larger than the last-level cache is written over; on a GPU (default: cold) calls take turns on
  /// copies of the arguments that are together twice as large as the L2.
  std::optional<bool> cold = {};
  double timeout_seconds = 10;  ///< compile plus run of one candidate
  int64_t memory_limit_bytes =
      0;                     ///< of a worker, above what it starts with; 0: half of what is free
  bool check_output = true;  ///< compare with the reference (all of it for a new best, else
                             ///< a sample of points)
};
std::string to_string(const MeasureProtocol& p);

struct MeasureResult {
  MeasureError error = MeasureError::None;
  std::string message;
  std::vector<double> seconds;  ///< a sample each; of one call
  /// Clearly slower than the best: fewer samples than asked. A hopeless one (twice the cut-off) is
  /// stopped in its first call: its one sample is the time until then, and its output was not
  /// checked.
  bool cut_off = false;
  /// The static choice, timed beside this: a machine drifts by tens of per cent within minutes, and
  /// the ratio of the two does not. 0: it was not timed.
  double base_seconds = 0;
  double compile_seconds = 0, run_seconds = 0, check_seconds = 0;
  bool ok() const { return error == MeasureError::None && !seconds.empty(); }
  double median() const;  ///< infinity when not ok
};

/// Shared by everyone who works under one budget.
class TuneClock {
 public:
  /// `whole`: this is a part of it, ends no later and is cancelled with it; must outlive this.
  explicit TuneClock(double budget_seconds = std::numeric_limits<double>::infinity(),
                     const TuneClock* whole = nullptr);
  double elapsed() const;
  double left() const;  ///< 0 when cancelled
  bool expired() const { return left() <= 0; }
  /// Safe from a signal handler.
  void cancel() { cancelled_.store(true, std::memory_order_relaxed); }
  bool cancelled() const {
    return cancelled_.load(std::memory_order_relaxed) || (whole_ && whole_->cancelled());
  }

 private:
  std::chrono::steady_clock::time_point start_;
  double budget_;
  const TuneClock* whole_;
  std::atomic<bool> cancelled_{false};
};

/// Compiles and times candidates. Implement it to measure elsewhere (a simulator, a remote board).
class Measurer {
 public:
  virtual ~Measurer() = default;
  /// Measures schedules of one task. `best_seconds` is the best so far, for early cut-off. Each
  /// result is handed to `done` as soon as it is there (in any order), from the caller's thread.
  /// Returns early, with the rest Cancelled, when `clock` expires.
  virtual void measure(const TuneTask& task, std::span<const Schedule> schedules,
                       double best_seconds, const TuneClock& clock,
                       const std::function<void(size_t index, const MeasureResult&)>& done) = 0;
  /// Times a few schedules against each other: nothing compiles meanwhile, calls round robin, the
  /// order drawn anew each round, for `seconds` in all or until every interval is narrow. The
  /// results' outputs are checked in full.
  virtual std::vector<MeasureResult> race(const TuneTask& task, std::span<const Schedule> schedules,
                                          double seconds, const TuneClock& clock) = 0;
  /// These will be asked for next: it may begin to compile them. False: it does nothing ahead, and
  /// need not be told again.
  virtual bool prefetch(const TuneTask& task, std::span<const Schedule> schedules) {
    (void)task, (void)schedules;
    return false;
  }
  virtual std::string protocol() const = 0;
  /// Where the time went, seconds by name ("compile", "run", "check", "idle", ...); for reports.
  virtual std::vector<std::pair<std::string, double>> time_spent() const { return {}; }
  /// What went wrong and made no candidate fail, such as a reference that is in doubt; for reports.
  virtual std::vector<std::string> problems() const { return {}; }
};

struct WorkerOptions {
  MeasureProtocol protocol = {};
  int workers = 0;  ///< processes that compile at the same time; 0: one a core
  /// The program that serves as a worker, and its arguments, to which some are added; it calls
  /// worker_main (heddle/search/worker.h). Empty: heddle-worker, which was built or installed with
  /// this library.
  std::vector<std::string> command = {};
};

/// The measurer of `tune` for targets of kind "cuda". Worker processes compile (lowering, CUDA
/// text, NVRTC) while a runner process of its own, the only one that ever initialises CUDA, times
/// what is compiled: graphs of several launches, by events. A kernel that hangs or breaks the
/// context costs that runner and is recorded; what the GPU could not launch, and what spills
/// registers to memory once something better is known, is Rejected before it runs.
std::unique_ptr<Measurer> make_cuda_measurer(const WorkerOptions& options = {});

/// Worker processes, reused for every candidate until one dies of it. They are programs of their
/// own: this process may have threads, use a GPU, or whatever. Compilation runs on all cores; runs
/// have the machine for themselves.
std::unique_ptr<Measurer> make_worker_measurer(const WorkerOptions& options = {});

}  // namespace heddle
