// The parts that the servers of both kinds of workers share (cpu/server.cpp, cuda/server.cpp):
// requests, answers, errors, the replay of schedules, and checks.
#pragma once

#include <unistd.h>

#include <functional>
#include <new>
#include <span>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/runtime/kernel.h"
#include "measure/messages/answers.h"
#include "measure/messages/requests.h"
#include "measure/process/hooks.h"
#include "measure/process/process.h"
#include "measure/process/task.h"

namespace heddle::measuring {

/// The arguments of a task, with new arrays for its outputs, and the outputs in the order of the
/// graph.
struct TaskArrays {
  std::vector<NDArray> args, outputs;
};
TaskArrays make_arrays(const MeasuredTask& of);

/// Receives requests, each one of the variant `Requests`, and passes them to `server.on`, until the
/// channel ends; their envelopes first to `begin`. A task that cannot be read is refused by
/// `server.reply`. Throws a User error for another invalid request.
template <class Requests, class Server, class Begin>
void serve_requests(Channel& channel, Server& server, Begin begin) {
  while (const std::optional<Json> message = channel.receive()) {
    begin(envelope_of(*message));
    std::optional<Requests> request;
    try {
      request = decode_any<Requests>(*message);
    } catch (const Error& e) {
      if (!codec::is<TaskMessage>(*message)) throw;
      server.reply(Started{.message = e.message});
      continue;
    }
    std::visit([&](const auto& r) { server.on(r); }, *request);
  }
}

class WorkerServer {
 public:
  WorkerServer(Channel& channel, WorkerStatus& status, WorkerTasks& tasks,
               const MeasureProtocol& protocol, const WorkerHooks& hooks)
      : channel_(channel), status_(status), tasks_(tasks), protocol_(protocol), hooks_(hooks) {}
  virtual ~WorkerServer() = default;

  /// Answers with the id of the last request. Ends the process when the other end is closed.
  template <class Answer>
  void reply(const Answer& answer) {
    status_.set(WorkerPhase::Idle, -1);
    if (!send(answer) || device_is_lost()) ::_exit(0);
  }

 protected:
  template <class Requests, class Server>
  void serve_as(Server& server) {
    serve_requests<Requests>(channel_, server, [this](const Envelope& envelope) {
      if (envelope.id != 0) status_.request.store(envelope.id);
    });
  }
  /// Replies with the result of `work`, or the failure that its exception means for the candidate.
  template <class F>
  void reply_guarded(F work) {
    forget_noise();
    std::visit([&](const auto& said) { reply(said); }, guarded(work));
  }
  /// The same as reply() without ending the process. Returns false when the other end is closed.
  template <class Answer>
  bool send(const Answer& answer) {
    return channel_.send(
        encode(answer, {.id = status_.request.load(), .device_lost = device_is_lost()}));
  }
  /// Whether the device cannot be used again. The process ends, and the measurer starts another.
  virtual bool device_is_lost() { return false; }

  template <class F>
  Said guarded(F work) {
    try {
      return work();
    } catch (const std::bad_alloc&) {
      return Failed{MeasureError::OutOfMemory, "out of memory"};
    } catch (const std::exception& e) {
      return failure_of(e);
    }
  }
  /// What an exception in the current phase means for the candidate.
  Failed failure_of(const std::exception& e) const;

  /// Discards the output of a candidate that succeeded. It is needed only if the candidate dies.
  static void forget_noise();
  void fault(const char* phase, int candidate, std::span<const NDArray> args = {});

  /// Applies `use` to the schedule that a request names. The result is Invalid where its steps do not
  /// apply.
  Said with_schedule(const Compile& request,
                     const std::function<Said(const ReplayedSchedule&)>& use);
  /// Computes the reference with `kernel` on these arrays. The answer lists doubts about it.
  static Done store_reference(const MeasuredTask& of, const TaskArrays& arrays,
                              const Kernel& kernel);
  /// The differences between `outputs` and the reference, "" where there are none or no reference.
  /// With `all`, every element is compared, else a sample that `candidate` draws.
  std::string difference(const MeasuredTask& of, const std::vector<NDArray>& outputs, bool all,
                         int candidate) const;

  Channel& channel_;
  WorkerStatus& status_;
  WorkerTasks& tasks_;
  const MeasureProtocol& protocol_;
  const WorkerHooks& hooks_;
};

}  // namespace heddle::measuring
