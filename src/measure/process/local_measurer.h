// The measurer of this machine: it dispatches requests to workers. Everything that may happen to a
// request is handled here, once: failures, limits of time, deaths of workers and runners, who is to
// blame, and what is tried again. The measurers for CPUs and GPUs decide what compiles and runs when.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "heddle/measure/measure.h"
#include "measure/messages/requests.h"
#include "measure/process/compile_queue.h"
#include "measure/process/measured_tasks.h"
#include "measure/process/pool.h"
#include "measure/process/race.h"
#include "measure/task/lap.h"

namespace heddle::measuring {

/// The code of a candidate that was compiled elsewhere, by its index in the current call of
/// measure() or race(); null where there is none. kStaticChoice is the static choice of the task.
using GivenCode = std::function<const Json*(size_t candidate)>;
inline constexpr size_t kStaticChoice = static_cast<size_t>(-1);

class LocalMeasurer : public Measurer {
 public:
  using Done = std::function<void(size_t, const MeasureResult&)>;

  void measure(const TuneTask& task, std::span<const Schedule> schedules, double best_seconds,
               const TuneClock& clock, const Done& done) override;
  std::vector<MeasureResult> race(const TuneTask& task, std::span<const Schedule> schedules,
                                  double seconds, const TuneClock& clock) override;
  std::vector<std::pair<std::string, double>> time_spent() const override {
    return {spent_.begin(), spent_.end()};
  }
  std::vector<std::string> problems() const override { return problems_; }

  /// While it exists, candidates with code are not compiled here.
  class CodeScope {
   public:
    CodeScope(LocalMeasurer& measurer, GivenCode code)
        : measurer_(measurer), before_(std::exchange(measurer.given_, std::move(code))) {}
    ~CodeScope() { measurer_.given_ = std::move(before_); }
    CodeScope(const CodeScope&) = delete;
    CodeScope& operator=(const CodeScope&) = delete;

   private:
    LocalMeasurer& measurer_;
    GivenCode before_;
  };

  /// Until it is destroyed, outputs are not compared with the reference: what is measured passed
  /// before.
  class UncheckedScope {
   public:
    explicit UncheckedScope(LocalMeasurer& measurer)
        : measurer_(measurer), before_(std::exchange(measurer.checks_, false)) {}
    ~UncheckedScope() { measurer_.checks_ = before_; }
    UncheckedScope(const UncheckedScope&) = delete;
    UncheckedScope& operator=(const UncheckedScope&) = delete;

   private:
    LocalMeasurer& measurer_;
    bool before_;
  };

 protected:
  /// Index of the worker that makes references and runs races, and all candidates for a GPU.
  static constexpr size_t kRunner = 0;
  /// Seconds for a reference.
  static constexpr double kReferenceTimeout = 60;

  /// The candidates of one call of measure().
  struct Batch {
    int task = -1;
    std::span<const Schedule> schedules;
    const TuneClock& clock;
    const Done& done;
    double best = 0;  ///< seconds of the best candidate; infinity where none is known
    std::vector<bool> finished = std::vector<bool>(schedules.size());
    /// Deaths after which each candidate was compiled or run again.
    std::vector<int> forgiven = std::vector<int>(schedules.size());
    std::string remark = {};  ///< message of every result: "not checked: ..."
    bool over() const {
      return std::find(finished.begin(), finished.end(), false) == finished.end();
    }
    std::optional<double> known_best() const {
      return std::isinf(best) ? std::nullopt : std::optional(best);
    }
  };

  /// Where a candidate runs once a worker has compiled it.
  enum class Runs : uint8_t {
    InItsWorker,  ///< the worker keeps the kernel and forks a runner, which is lost at no great cost
    InTheRunner,  ///< its code travels to kRunner
  };
  LocalMeasurer(const WorkerOptions& options, const Hello& hello, int workers, Runs where);

  // What devices differ in.

  /// Makes the reference. Returns false when the clock expired.
  virtual bool compute_reference(int task, const TuneClock& clock) = 0;
  /// Compiles and runs the candidates, until all are finished or the clock expires.
  virtual void run(Batch& batch) = 0;
  /// Starts the workers that a race needs. Returns those that compile for it.
  virtual CompileQueue::Workers start_for_race() = 0;
  /// The key of the compilation of a candidate. Equal keys share one.
  virtual uint64_t job_key(int task, size_t index, const Schedule& schedule) const = 0;

  // What they share.

  /// The number of the task. Makes its inputs where it is new.
  virtual int register_task(const TuneTask& task);
  /// Ends workers that are busy, and drops what is compiled.
  void settle();
  /// Queues the compilation of a candidate. Returns its key.
  uint64_t add_job(int task, size_t index, const Schedule& schedule, bool no_spills);
  bool checks() const { return checks_; }
  const Json* given_code(size_t candidate) const { return given_ ? given_(candidate) : nullptr; }
  /// Hears the answer to a request for a reference. Returns whether it was made.
  bool hear_of_reference(int task, const WorkerEvent& event);
  void finish(Batch& batch, size_t candidate, const MeasureResult& result);
  /// Whether a death that this candidate did not cause for certain is forgiven, and the candidate
  /// tried again: once. If a worker dies with it again, the candidate is blamed.
  bool forgives(Batch& batch, size_t candidate, const WorkerEvent& event);
  /// The result of a run that took `seconds`; nothing where it must run again. A runner that may be
  /// damaged is ended.
  std::optional<MeasureResult> result_of(Batch& batch, size_t candidate, const WorkerEvent& event,
                                         double seconds);

  WorkerOptions options_;
  MeasuredTasks tasks_;
  WorkerPool workers_;
  CompileQueue compiling_;
  TimeSpent spent_;
  std::vector<std::string> problems_;

 private:
  bool make_reference(int task, const TuneClock& clock);
  bool ends_runner(const WorkerEvent& event);
  void hear_of_death(Race& race, const WorkerEvent& event);
  bool compile_racers(Race& race);
  template <class Request>
  bool succeeds(Race& race, const Request& request, double* seconds = nullptr);
  bool enter_all(Race& race);
  bool start(Race& race);
  double sample(Race& race, size_t candidate);
  bool narrow(const Race& race) const;

  Runs where_;
  GivenCode given_;
  bool checks_ = true;
  uint64_t races_ = 0;
};

}  // namespace heddle::measuring
