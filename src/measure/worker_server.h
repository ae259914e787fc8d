// What the servers of both kinds of workers do alike (worker_main.cpp, cuda_server.cpp): answers,
// errors, schedules on their way to a kernel, checks, and the rounds of a race.
#pragma once

#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/runtime/kernel.h"
#include "heddle/runtime/timer.h"
#include "measure/worker_hooks.h"
#include "measure/worker_process.h"
#include "measure/worker_task.h"

namespace heddle::measuring {

/// {error, message}
Json failure(MeasureError error, const std::string& message);

/// The arguments of a task, its outputs made for it, and these in the order of the graph's outputs.
struct TaskArrays {
  std::vector<NDArray> args, outputs;
};
TaskArrays make_arrays(const MeasuredTask& of);

/// One that runs in a race.
struct Racer {
  int candidate = 0;
  std::function<double()> turn;  ///< seconds of one call
  std::vector<double> seconds = {};
};

class WorkerServer {
 public:
  WorkerServer(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
               const MeasureProtocol& protocol, const WorkerHooks& hooks)
      : channel_(channel), status_(status), tasks_(tasks), protocol_(protocol), hooks_(hooks) {}
  virtual ~WorkerServer() = default;

 protected:
  /// Answers with the number of the request that was received last. Ends the process when nobody is
  /// there to hear it.
  virtual void reply(Json message);
  /// The same without an end; false when nobody hears it.
  bool send(Json message);

  /// What `work` returns, or what its failure is to the candidate.
  template <class F>
  Json guarded(F work) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return failure(MeasureError::OutOfMemory, "out of memory");
    } catch (const std::exception& e) {
      return failure_of(e);
    }
  }
  /// What an exception means depends on where it was thrown.
  virtual Json failure_of(const std::exception& e) = 0;

  /// What a candidate printed is of interest if it dies, not later.
  static void forget_noise();
  void fault(const char* phase, int candidate, std::span<const NDArray> args = {});

  const MeasuredTask& task_of(const Json& request) const {
    return tasks_.at(request.at("task").as_int());
  }
  /// What `use` makes of the schedule that a request to compile names; Invalid where its steps do
  /// not apply.
  Json with_schedule(const Json& request, const std::function<Json(const ReplayedSchedule&)>& use);
  /// Computes the reference by `kernel` from these, and says what is in doubt.
  static Json store_reference(const MeasuredTask& of, const TaskArrays& arrays,
                              const Kernel& kernel);
  /// How `outputs` differ from the reference, "" where they do not or where there is none. `all`:
  /// every element is looked at, else a sample that `candidate` draws.
  std::string difference(const MeasuredTask& of, const std::vector<NDArray>& outputs, bool all,
                         int candidate) const;
  /// Rounds of turns, the order drawn anew for each, until `seconds` since `timer` began are over
  /// or every interval is narrow; then {done}. Who fails is reported, and out.
  void run_rounds(std::vector<Racer> racers, const Json& request, const Timer& timer);

  Channel& channel_;
  WorkerStatus& status_;
  WorkerTasks& tasks_;
  const MeasureProtocol& protocol_;
  const WorkerHooks& hooks_;

 private:
  bool decided(const std::vector<Racer>& racers) const;
  Json round(std::vector<Racer>& racers, const std::vector<size_t>& order);
};

}  // namespace heddle::measuring
