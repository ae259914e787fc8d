// The CUDA measurer: it assigns compilation and runs to processes, and replaces processes that die.
//
// Worker 0 of the pool is the runner, and the others compile. Compiled code passes from them to the
// runner through this process. Compilation overlaps with runs: load on the CPU cores does not
// disturb a GPU as long as the host issues launches in time (tuning_device.cpp). With prefetch()
// the compilers continue with the next batch while the last kernels of this one run and the search
// computes.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "measure/process/local_measurer.h"
#include "measure/process/measured_tasks.h"
#include "measure/process/pool.h"
#include "measure/task/lap.h"
#include "measure/task/tuning_device.h"

namespace heddle::measuring {

class CudaMeasurer : public LocalMeasurer {
 public:
  using Done = std::function<void(size_t, const MeasureResult&)>;

  explicit CudaMeasurer(const WorkerOptions& options);

  void measure(const TuneTask& task, std::span<const Schedule> schedules, double best_seconds,
               const TuneClock& clock, const Done& done) override;
  bool prefetch(const TuneTask& task, std::span<const Schedule> schedules) override;
  std::vector<MeasureResult> race(const TuneTask& task, std::span<const Schedule> schedules,
                                  double seconds, const TuneClock& clock) override;
  bool keeps_code() const override { return true; }
  std::string protocol() const override;
  std::vector<std::pair<std::string, double>> time_spent() const override;
  std::vector<std::string> problems() const override { return problems_; }

 private:
  static constexpr size_t kRunner = 0;  ///< index of the runner among the workers
  struct Batch;
  struct Race;
  /// The compilation of a candidate.
  struct Job {
    int task = 0;
    size_t index = 0;  ///< index in its batch
    Json steps;
    bool no_spills = false;
    bool compiled = false;  ///< whether `answer` is set
    int deaths = 0;         ///< number of compilers that died without an identified cause
    Json answer;            ///< answer of the compiler, or {error, message}
  };

  int add_task(const TuneTask& task);
  int register_task(const TuneTask& task);
  void ready_workers();
  void stop_workers();
  void settle();
  bool make_reference(int task, const TuneClock& clock);
  bool reference_on_gpu(int task, const TuneClock& clock);
  size_t any_compiler() const;
  std::optional<WorkerEvent> ask_beside(size_t worker, const Json& request, double allowed,
                                        const TuneClock& clock);
  /// Queues the batch's schedules for the compilers, before the jobs that were prefetched.
  void queue_jobs(Batch& batch, bool refuse_spills);
  uint64_t add_job(int task, size_t index, const Schedule& schedule, bool no_spills);
  void ask_runner(Json request, double allowed);
  void feed_compilers();
  void compiler_said(const WorkerEvent& event);
  void feed_runner(Batch& batch);
  void runner_said(Batch& batch, const WorkerEvent& event);
  void take_compiled(Batch& batch);
  void finish(Batch& batch, size_t index, MeasureResult result);
  void lose_runner();
  bool race_once(Race& race, double seconds);
  bool compile_racers(Race& race);

  WorkerOptions options_;
  MeasuredTasks tasks_;
  WorkerPool workers_;
  size_t epoch_ = 0;  ///< number of tasks that the workers know
  int opened_ = -1;   ///< the task whose arguments the runner has on the device
  std::map<uint64_t, Job> jobs_;
  std::map<uint64_t, Json> kept_;  ///< compilers' answers for what was measured of kept_task_
  int kept_task_ = -1;
  std::deque<uint64_t> queue_;     ///< jobs to be compiled
  std::vector<uint64_t> at_work_;  ///< the job of each worker; 0: none
  uint64_t races_ = 0;
  TimeSpent spent_;
  std::vector<std::string> problems_;
};

}  // namespace heddle::measuring
