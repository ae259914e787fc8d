// The parts that the servers of both kinds of workers share (worker_main.cpp, cuda_server.cpp):
// answers, errors, the replay of schedules, checks, and the rounds of a race.
#pragma once

#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/runtime/kernel.h"
#include "heddle/runtime/timer.h"
#include "measure/process/hooks.h"
#include "measure/process/process.h"
#include "measure/process/task.h"
#include "runtime/race/race.h"

namespace heddle::measuring {

/// {error, message}
Json failure(MeasureError error, const std::string& message);

/// The arguments of a task, with new arrays for its outputs, and the outputs in the order of the
/// graph.
struct TaskArrays {
  std::vector<NDArray> args, outputs;
};
TaskArrays make_arrays(const MeasuredTask& of);

/// A participant in a race.
struct Racer {
  int candidate = 0;
  std::function<double()> turn;  ///< seconds of one call
};

class WorkerServer {
 public:
  WorkerServer(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
               const MeasureProtocol& protocol, const WorkerHooks& hooks)
      : channel_(channel), status_(status), tasks_(tasks), protocol_(protocol), hooks_(hooks) {}
  virtual ~WorkerServer() = default;

 protected:
  /// Answers with the id of the last request. Ends the process when the other end is closed.
  virtual void reply(Json message);
  /// The same without ending the process. Returns false when the other end is closed.
  bool send(Json message);

  /// The result of `work`, or the failure that its exception means for the candidate.
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
  /// Interprets an exception, depending on the phase in which it was thrown.
  virtual Json failure_of(const std::exception& e) = 0;

  /// Discards the output of a candidate that succeeded. It is needed only if the candidate dies.
  static void forget_noise();
  void fault(const char* phase, int candidate, std::span<const NDArray> args = {});

  const MeasuredTask& task_of(const Json& request) const {
    return tasks_.at(request.at("task").as_int());
  }
  /// Applies `use` to the schedule that a compile request names. The result is Invalid where its
  /// steps do not apply.
  Json with_schedule(const Json& request, const std::function<Json(const ReplayedSchedule&)>& use);
  /// Computes the reference with `kernel` on these arrays. The answer lists doubts about it.
  static Json store_reference(const MeasuredTask& of, const TaskArrays& arrays,
                              const Kernel& kernel);
  /// The differences between `outputs` and the reference, "" where there are none or no reference.
  /// With `all`, every element is compared, else a sample that `candidate` draws.
  std::string difference(const MeasuredTask& of, const std::vector<NDArray>& outputs, bool all,
                         int candidate) const;
  /// Runs rounds of turns in a new random order each, until `seconds` since `timer` began are over
  /// or every interval is narrow. Then it sends {done}. A racer that fails is reported and leaves
  /// the race.
  void run_rounds(std::vector<Racer> racers, const Json& request, const Timer& timer);

  Channel& channel_;
  WorkerStatus& status_;
  WorkerTasks& tasks_;
  const MeasureProtocol& protocol_;
  const WorkerHooks& hooks_;

 private:
  bool narrow(const racing::Field& field) const;
};

}  // namespace heddle::measuring
