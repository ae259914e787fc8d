// The tuner's workers. The pool starts them when they are needed, sends requests, and replaces
// workers that die.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "heddle/measure/measure.h"
#include "measure/messages/answers.h"
#include "measure/process/process.h"

namespace heddle::measuring {

/// The outcome of a request: an answer, or the end of the worker or of its runner.
struct WorkerEvent {
  size_t worker = 0;
  std::optional<WorkerAnswer> answer;
  WorkerDeath death;
  bool worker_lives = true;    ///< only its runner died; its compiled kernels still exist
  double stopped_seconds = 0;  ///< above 0 where its first call was stopped after this time

  /// Why there is no result: the worker's word, or the cause of the death.
  std::optional<Failed> failure() const {
    if (!answer) return Failed{death.error, death.message};
    const Failed* why = answer->failed();
    return why ? std::optional(*why) : std::nullopt;
  }
};

class WorkerPool {
 public:
  /// The message by which a worker learns of a task, by number; null for one that is gone.
  using Introduce = std::function<Json(size_t task)>;
  /// A worker answers the hello, and each task. Each request has a number, "id", and each message
  /// that answers it has the same.
  WorkerPool(int workers, WorkerProcess::Start start, Introduce introduce = nullptr);

  size_t size() const { return workers_.size(); }
  bool alive(size_t worker) const { return workers_[worker].process != nullptr; }
  bool busy(size_t worker) const { return workers_[worker].busy; }

  /// Ensures that the first `count` workers live, are idle and know the first `tasks` tasks. Throws
  /// a Runtime error when they cannot be started or refuse a task.
  void start(size_t count, size_t tasks);
  /// Replaces a worker that died, while others run. Throws as start() does.
  void restart(size_t worker, size_t tasks);
  void kill(size_t worker) { workers_[worker] = {}; }
  /// Ends the worker's runner, and lets the worker drop its compiled kernels.
  void forget(size_t worker);
  /// Kills busy workers; the others drop their kernels.
  void settle();
  /// Ends the worker's runner. The next request that runs something starts another one.
  void rest(size_t worker);

  /// Sends a request. When one of its steps takes longer than `allowed` seconds, or a first call
  /// longer than `first_call` seconds, the worker is ended, or its runner if it has one.
  template <class Request>
  void ask(size_t worker, const Request& request, double allowed,
           double first_call = std::numeric_limits<double>::infinity()) {
    begin(worker, allowed, first_call);
    workers_[worker].process->channel().send(  // waiting will show if the worker is dead
        encode(request, {.id = workers_[worker].request}));
  }
  /// Waits for a busy worker; nothing when the clock has expired.
  std::optional<WorkerEvent> next_event(const TuneClock& clock);
  /// Accepts a death that no candidate caused. After too many of them it throws a Runtime error.
  void forgive(const WorkerDeath& death);

 private:
  struct Worker {
    std::unique_ptr<WorkerProcess> process;
    size_t known = 0;  ///< number of tasks that were sent to it
    int awaited = 0;   ///< outstanding answers to the messages at its start
    bool busy = false;
    int64_t request = 0;  ///< id of the last request; answers to others are ignored
    bool asked_before = false;
    std::chrono::steady_clock::time_point asked;  ///< when its request was sent
    double allowed = 0;                           ///< seconds for each step of the request
    double first_call = 0;                        ///< seconds for the first call
    bool timed_out = false;                       ///< its runner is being killed for that
    double stopped_seconds = 0;                   ///< ... or because its first call took so long
    std::optional<WorkerAnswer>
        late;  ///< its runner answered while it was being killed: the end follows
  };
  void begin(size_t worker, double allowed, double first_call);
  bool bring_up(Worker& worker, size_t tasks, bool* timed_out);
  bool hear_of_start(Worker& worker, bool* timed_out);
  std::optional<WorkerEvent> poll(double seconds);
  std::optional<WorkerEvent> look_at(size_t index, bool readable);
  std::optional<WorkerEvent> watch(size_t index);
  double patience(const Worker& worker) const;
  WorkerEvent died(size_t worker, bool timed_out);

  WorkerProcess::Start start_;
  Introduce introduce_;
  std::vector<Worker> workers_;
  int64_t last_request_ = 0;
  std::string refused_;  ///< why a worker refused a message at its start
  int strays_ = 0;       ///< consecutive deaths that no candidate caused
};

/// Bytes that could be allocated now; 0 when that is not known.
int64_t free_memory_bytes();

}  // namespace heddle::measuring
