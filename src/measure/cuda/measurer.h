// The CUDA measurer: it assigns compilation and runs to processes, and replaces processes that die.
//
// Worker 0 of the pool is the runner, and the others compile. Compiled code passes from them to the
// runner through this process. Compilation overlaps with runs: load on the CPU cores does not
// disturb a GPU as long as the host issues launches in time (tuning_device.cpp). With prefetch()
// the compilers continue with the next batch while the last kernels of this one run and the search
// computes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "measure/process/local_measurer.h"
#include "measure/task/tuning_device.h"

namespace heddle::measuring {

class CudaMeasurer : public LocalMeasurer {
 public:
  explicit CudaMeasurer(const WorkerOptions& options);

  bool prefetch(const TuneTask& task, std::span<const Schedule> schedules) override;
  bool keeps_code() const override { return true; }
  std::string protocol() const override;
  std::vector<std::pair<std::string, double>> time_spent() const override;

 private:
  struct Jobs;
  int register_task(const TuneTask& task) override;
  void ready_workers();
  void run(Batch& batch) override;
  bool compute_reference(int task, const TuneClock& clock) override;
  bool reference_on_gpu(int task, const TuneClock& clock);
  size_t any_compiler() const;
  template <class Request>
  std::optional<WorkerEvent> ask_beside(size_t worker, const Request& request,
                                        const TuneClock& clock);
  void feed_runner(Jobs& jobs);
  void runner_said(Jobs& jobs, const WorkerEvent& event);
  void take_compiled(Jobs& jobs);
  void report(Jobs& jobs, size_t index, MeasureResult result);
  CompileQueue::Workers start_for_race() override {
    ready_workers();
    return compilers();
  }
  uint64_t job_key(int task, size_t index, const Schedule& schedule) const override;
  CompileQueue::Workers compilers() const { return {kRunner + 1, workers_.size()}; }

  size_t epoch_ = 0;    ///< number of tasks that the workers know
  int opened_ = -1;     ///< the task whose arguments the runner has on the device
  int kept_task_ = -1;  ///< the task whose code is kept
};

}  // namespace heddle::measuring
