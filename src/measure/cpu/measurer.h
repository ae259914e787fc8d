// The worker measurer: it assigns compilation and runs to workers, and replaces workers that die.
//
// Compilation and runs take turns: a group of candidates is compiled by all workers at once, then
// the group's kernels run while no worker compiles. With as many workers as cores, compiling beside
// a run costs it a fifth of its speed. Where there are many more cores than a kernel has threads,
// several run at once (run_lanes.h).
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/runtime/thread_pool.h"
#include "measure/cpu/lanes.h"
#include "measure/process/local_measurer.h"
#include "measure/process/measured_tasks.h"
#include "measure/process/pool.h"
#include "measure/task/lap.h"

namespace heddle::measuring {

class WorkerMeasurer : public LocalMeasurer {
 public:
  using Done = std::function<void(size_t, const MeasureResult&)>;

  /// With `always_base`, the static choice is timed in every call, however few candidates there
  /// are.
  explicit WorkerMeasurer(const WorkerOptions& options, bool always_base = false)
      : options_(options),
        always_base_(always_base),
        workers_(options.workers > 0 ? options.workers : default_num_threads(), start_options(),
                 [this](size_t task) { return tasks_.message(task, workers_.size()); }) {}

  void measure(const TuneTask& task, std::span<const Schedule> schedules, double best_seconds,
               const TuneClock& clock, const Done& done) override;
  std::vector<MeasureResult> race(const TuneTask& task, std::span<const Schedule> schedules,
                                  double seconds, const TuneClock& clock) override;
  std::string protocol() const override { return to_string(options_.protocol); }
  std::vector<std::pair<std::string, double>> time_spent() const override;
  std::vector<std::string> problems() const override { return problems_; }
  std::vector<std::string> remarks() const override;

 private:
  struct Batch;
  struct Lane;
  struct Race;

  int register_task(const TuneTask& task);
  WorkerProcess::Start start_options() const;
  void start_workers(size_t count);
  bool make_reference(int task, const TuneClock& clock);
  size_t group_size(const Batch& batch) const;
  bool compile_group(Batch& batch, const std::vector<size_t>& group);
  bool run_group(Batch& batch);
  void open_lanes(int task);
  Json base_request(int task) const;
  bool compile_bases(Batch& batch, std::vector<Lane>& lanes);
  void run_base(Batch& batch, Lane& lane);
  void hear_of_base(Batch& batch, Lane& lane, const WorkerEvent& event);
  void run_next(Batch& batch, Lane& lane);
  void hear_of_run(Batch& batch, Lane& lane, const WorkerEvent& event);
  bool advance(Batch& batch, Lane& lane, const WorkerEvent& event);
  Json compile_request(int task, size_t candidate, const Schedule& schedule) const;
  void finish(Batch& batch, size_t candidate, const MeasureResult& result);
  bool race_once(Race& race, double seconds);
  bool compile_racers(Race& race);
  bool bury(Race& race, const WorkerEvent& event);
  double run_allowance(double compile_seconds) const;
  double first_call_allowance(double best_seconds) const;

  WorkerOptions options_;
  bool always_base_;
  MeasuredTasks tasks_;
  WorkerPool workers_;
  uint64_t races_ = 0;
  double mean_compile_ = 0.025, mean_run_ = 0.015;  ///< seconds, running means over candidates
  TimeSpent spent_;
  std::vector<std::string> problems_;
  std::map<int, std::deque<double>> bases_;  ///< the last times of the static choice of each task
  std::map<int, RunLanes> lanes_;            ///< by task
};

}  // namespace heddle::measuring
