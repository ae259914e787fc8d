// The worker measurer: it assigns compilation and runs to workers, and replaces workers that die.
//
// Compilation and runs take turns: a group of candidates is compiled by all workers at once, then
// the group's kernels run while no worker compiles. With as many workers as cores, compiling beside
// a run costs it a fifth of its speed. Where there are many more cores than a kernel has threads,
// several run at once (lanes.h).
#pragma once

#include <deque>
#include <map>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "measure/cpu/lanes.h"
#include "measure/process/local_measurer.h"

namespace heddle::measuring {

class WorkerMeasurer : public LocalMeasurer {
 public:
  /// With `always_base`, the static choice is timed in every call, however few candidates there
  /// are.
  explicit WorkerMeasurer(const WorkerOptions& options, bool always_base = false);

  std::string protocol() const override { return to_string(options_.protocol); }
  std::vector<std::string> remarks() const override;

 private:
  struct Groups;
  struct Lane;

  void start_workers(size_t count);
  bool compute_reference(int task, const TuneClock& clock) override;
  void run(Batch& batch) override;
  size_t group_size(const Groups& groups) const;
  bool compile_group(Groups& groups, const std::vector<size_t>& group);
  bool run_group(Groups& groups);
  void open_lanes(int task);
  Compile base_request(int task) const;
  bool compile_bases(Groups& groups, std::vector<Lane>& lanes);
  void run_base(Groups& groups, Lane& lane);
  void hear_of_base(Groups& groups, Lane& lane, const WorkerEvent& event);
  void run_next(Groups& groups, Lane& lane);
  void hear_of_run(Groups& groups, Lane& lane, const WorkerEvent& event);
  bool advance(Groups& groups, Lane& lane, const WorkerEvent& event);
  CompileQueue::Workers start_for_race() override {
    start_workers(1);
    return {kRunner, kRunner + 1};
  }
  /// A worker keeps kernels by candidate, so none are shared.
  uint64_t job_key(int, size_t index, const Schedule&) const override { return index + 1; }
  double run_allowance(double compile_seconds) const;
  double first_call_allowance(double best_seconds) const;

  bool always_base_;
  double mean_compile_ = 0.025, mean_run_ = 0.015;  ///< seconds, running means over candidates
  std::map<int, std::deque<double>> bases_;  ///< the last times of the static choice of each task
  std::map<int, RunLanes> lanes_;            ///< by task
};

}  // namespace heddle::measuring
