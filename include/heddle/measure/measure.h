// Measuring candidates, safely in worker processes, and with reliable figures.
#pragma once

#include <algorithm>
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
#include "heddle/support/json.h"

namespace heddle {

/// The range [lo, hi) of uniformly drawn floats.
struct InputRange {
  double lo = -1, hi = 1;
};

/// One declaration to be tuned.
struct TuneTask {
  std::string name;          ///< readable subject
  std::vector<Tensor> args;  ///< inputs and outputs in call order
  Template tmpl;             ///< of ComputeDag(outputs); carries DAG, target (threads) and options
  double weight = 1;         ///< how often the network calls it
  /// Gives values of the inputs, by argument position. By default floats are uniform in [-1, 1],
  /// and integers are small.
  std::function<NDArray(size_t arg)> make_input = {};
  /// Other ranges of floats, by argument position. The tasks of a network have the ranges that
  /// their producers can give. The list may be shorter than the arguments.
  std::vector<std::optional<InputRange>> input_ranges = {};

  /// Bytes of all weights that a call of the task's network reads, packed as the static choice
  /// packs them. Before a timed call on a CPU the caches are left as that network leaves them. 0:
  /// the task runs alone, and is timed as the protocol says.
  int64_t network_bytes = 0;

  /// The message of a task that came from another process. Workers get the same message.
  std::shared_ptr<const Json> message = {};

  uint64_t hash() const;  ///< structural hash combined with the target: the cost model's task
  double flops() const { return tmpl.dag().total_flops(); }
};
/// The task of a declaration. `args` default to placeholders in order of first use, then outputs.
TuneTask make_task(std::string name, const std::vector<Tensor>& outputs, const Target& target,
                   std::vector<Tensor> args = {},
                   const AutoSchedulerOptions& options = current_auto_scheduler_options());

/// How candidates are timed. `to_string` of it is written to every record.
struct MeasureProtocol {
  int min_repeats = 2;         ///< timed samples, after one warm-up call
  int max_repeats = 12;        ///< the leaders are raced in the end
  double min_seconds = 0.004;  ///< least time of sampling (unless cut off)
  double max_seconds = 0.05;   ///< largest time of sampling once there are min_repeats samples
  double relative_ci = 0.02;  ///< sampling ends when the 95 % interval of the median is this narrow
  double cutoff = 1.5;        ///< stop at once when slower than cutoff x best; 0: never
  /// With cold caches a call finds no argument in the caches. On a CPU (default: warm) a buffer
  /// larger than the last-level cache is overwritten. On a GPU (default: cold) calls rotate over
  /// copies of the arguments that are together twice as large as the L2.
  std::optional<bool> cold = {};
  double timeout_seconds = 10;     ///< compile plus run of one candidate
  int64_t memory_limit_bytes = 0;  ///< of a worker, beyond its start; 0: half of free memory
  bool check_output = true;        ///< compare with the reference (all of it for a new best, else
                                   ///< a sample of points)
};
/// The protocol as text, as records hold it.
std::string to_string(const MeasureProtocol& p);

/// The result of measuring one candidate.
struct MeasureResult {
  MeasureError error = MeasureError::None;
  std::string message;
  std::vector<double> seconds;  ///< one sample each, seconds of one call
  /// The candidate was clearly slower than the best and has fewer samples than requested. A
  /// hopeless one (twice the cut-off) is stopped in its first call. Its only sample is the time
  /// until then, and its output was not checked.
  bool cut_off = false;
  /// The time of the static choice, measured beside this one. A machine drifts by tens of per cent
  /// within minutes, but the ratio of the two does not. 0: not measured.
  double base_seconds = 0;
  double compile_seconds = 0, run_seconds = 0, check_seconds = 0;
  std::string machine = {};  ///< the machine that it ran on, if not this one (Record::machine)
  bool ok() const { return error == MeasureError::None && !seconds.empty(); }
  double median() const;  ///< infinity when not ok
};

/// The clock of a budget, shared by all parts that work under it.
class TuneClock {
 public:
  /// `whole`, if given, is the clock of a larger budget. This one ends no later and is cancelled
  /// with it. `whole` must outlive this clock.
  explicit TuneClock(double budget_seconds = std::numeric_limits<double>::infinity(),
                     const TuneClock* whole = nullptr);
  double elapsed_s() const;
  double left_s() const;  ///< 0 when cancelled
  bool expired() const { return left_s() <= 0; }
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

/// The work of one of several measuring devices for a run.
struct NodeUse {
  std::string name;     ///< name of the device: its node, and its number there
  std::string machine;  ///< fingerprint, as in records
  int trials = 0, failures = 0;
  double seconds = 0;       ///< since it joined, until now or until it left
  double busy_seconds = 0;  ///< of these, seconds with something to measure
  bool gone = false;
  std::string set_aside = {};  ///< why the device is not used any more; empty: it is used
  /// The share of the time in which it waited for work.
  double waiting() const { return seconds > 0 ? std::max(0.0, 1 - busy_seconds / seconds) : 0; }
};

/// Compiles and times candidates. Implement it to measure elsewhere (a simulator, a remote board).
class Measurer {
 public:
  virtual ~Measurer() = default;
  /// Measures schedules of one task. `best_seconds` is the best so far, for early cut-off. Each
  /// result is passed to `done` as soon as it exists, in any order, from the caller's thread. When
  /// `clock` expires it returns early, and the other results are Cancelled.
  virtual void measure(const TuneTask& task, std::span<const Schedule> schedules,
                       double best_seconds, const TuneClock& clock,
                       const std::function<void(size_t index, const MeasureResult&)>& done) = 0;
  /// Times a few schedules against each other while nothing compiles. Each round calls all of them
  /// in a new random order, for `seconds` in all or until every interval is narrow. All elements of
  /// their outputs are checked.
  virtual std::vector<MeasureResult> race(const TuneTask& task, std::span<const Schedule> schedules,
                                          double seconds, const TuneClock& clock) = 0;
  /// Announces the schedules that will be measured next, so that compilation may begin. Returns
  /// false where the measurer does nothing in advance; further calls are then not needed.
  virtual bool prefetch(const TuneTask& task, std::span<const Schedule> schedules) {
    (void)task, (void)schedules;
    return false;
  }
  /// The number of candidates that should be announced beyond the batch that is measured, so that
  /// no device waits for compilers or for the search. 0: as many as a batch has.
  virtual int look_ahead() const { return 0; }
  /// The number of candidates that are timed at the same time. Rounds should be larger by this
  /// factor.
  virtual int width() const { return 1; }
  /// Whether it keeps the code of the last task that it measured, so that a race of these schedules
  /// compiles nothing.
  virtual bool keeps_code() const { return false; }
  /// The devices, of a measurer that has several.
  virtual std::vector<NodeUse> nodes() const { return {}; }
  virtual std::string protocol() const = 0;
  /// Where the time was spent, in seconds by name ("compile", "run", "check", "idle", ...), for
  /// reports.
  virtual std::vector<std::pair<std::string, double>> time_spent() const { return {}; }
  /// Problems that did not make a candidate fail, such as a doubtful reference, for reports.
  virtual std::vector<std::string> problems() const { return {}; }
  /// Remarks on how it was measured, for reports, such as the number of candidates timed at once.
  virtual std::vector<std::string> remarks() const { return {}; }
};

/// Options of a measurer that runs worker processes on this machine.
struct WorkerOptions {
  MeasureProtocol protocol = {};
  int workers = 0;  ///< processes that compile at the same time; 0: one for each core
  /// The number of candidates that are timed at the same time, each on CPUs of its own. 0: as many
  /// as leave half of the cores idle, and fewer where the static choice takes longer beside copies
  /// of itself than alone. 1: one at a time. Races, and calls with cold caches, always run alone.
  int runs_at_once = 0;
  /// The worker program and its arguments, to which more are added. It must call worker_main
  /// (heddle/measure/worker.h). Empty: heddle-worker, which was built or installed with this
  /// library.
  std::vector<std::string> command = {};
  /// GPUs only. Measurers of several processes that name the same file here take turns on the GPU:
  /// each locks the file (flock) while it uses the GPU, so that none disturbs the times of another.
  /// Their compilers run side by side. The file is made where there is none. Empty: no turns.
  std::string turns = {};
};

/// The measurer of `tune` for targets of kind "cuda". Worker processes compile (lowering, CUDA
/// text, NVRTC). One runner process, the only one that initialises CUDA, times graphs of several
/// launches by events. A kernel that hangs or breaks the context ends that runner and is recorded.
/// Kernels that the GPU cannot launch are Rejected before they run. Kernels that spill registers
/// are rejected too, once a better one is known.
std::unique_ptr<Measurer> make_cuda_measurer(const WorkerOptions& options = {});

/// The measurer for CPUs. Worker processes are reused for all candidates until a candidate ends
/// one. They are separate programs, so this process may have threads or use a GPU. Compilation runs
/// on all cores. Timed runs have the machine to themselves.
std::unique_ptr<Measurer> make_worker_measurer(const WorkerOptions& options = {});

}  // namespace heddle
