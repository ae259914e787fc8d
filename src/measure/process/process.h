// A worker process as the tuner sees it: a separate program that communicates through a channel,
// and that is watched and killed. It compiles, and forks a runner of itself to call the compiled
// kernels. A kernel that damages its process therefore costs the runner alone, and the other
// kernels still exist.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/records/record.h"
#include "measure/process/channel.h"

namespace heddle::measuring {

/// FirstCall is the phase that may be stopped early: see WorkerPool::ask.
enum class WorkerPhase : int32_t { Idle, Compile, Prepare, FirstCall, Run, Check, Reference };
const char* to_string(WorkerPhase phase);

/// The current activity of a worker, in memory that it shares with the tuner, which can read it
/// after the worker's death.
struct WorkerStatus {
  std::atomic<int32_t> candidate{-1};
  std::atomic<WorkerPhase> phase{WorkerPhase::Idle};
  std::atomic<int64_t> since_ns{0};  ///< nanoseconds of the steady clock
  std::atomic<pid_t> runner{0};      ///< its child, if it has one now
  std::atomic<int64_t> request{0};   ///< id of the last request that it or its runner has received

  void set(WorkerPhase what, int of_candidate) {
    candidate.store(of_candidate);
    phase.store(what);
    since_ns.store(std::chrono::steady_clock::now().time_since_epoch().count());
  }
};

/// The cause of the death of a worker or of its runner.
struct WorkerDeath {
  MeasureError error = MeasureError::Crash;
  std::string message;  ///< "SIGSEGV while running"
  WorkerPhase phase = WorkerPhase::Idle;
  int candidate = -1;  ///< the candidate that it worked on
};

class WorkerProcess {
 public:
  struct Start {
    /// The program and its arguments (program.h). The descriptors of shared objects are
    /// added.
    std::vector<std::string> command;
    int shared_fd = -1;         ///< descriptor of the SharedMemory for it; -1: none
    Json hello;                 ///< the first message (messages/requests.h)
    double start_seconds = 20;  ///< a worker that has not answered by then is replaced
  };
  /// Starts the process. It is safe in a process with many threads or with a GPU in use. Throws a
  /// Runtime error when the program cannot be run or the system allows no process.
  explicit WorkerProcess(const Start& start);
  /// Kills the process if it lives, and waits for its end.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// Checks whether the process lives. Other programs may have killed an idle worker.
  bool alive();
  Channel& channel() { return channel_; }
  const WorkerStatus& status() const { return *status_; }
  /// Waits for the end of a worker whose channel closed, or kills it, and returns the cause of its
  /// death. `timed_out` says that it is killed because it took longer than allowed.
  WorkerDeath bury(bool timed_out = false);
  /// The cause of the death of its runner, from the status of waitpid().
  WorkerDeath explain(int wait_status, bool timed_out) const;
  /// Kills the runner; the worker then reports its death. Returns false when there is none.
  bool kill_runner();

 private:
  std::string last_words() const;

  pid_t pid_ = -1;
  Channel channel_;
  WorkerStatus* status_ = nullptr;
  int noise_ = -1;  ///< a file in memory for the output of the worker
};

/// Exit status of a worker in which an allocation failed.
inline constexpr int kExitOutOfMemory = 77;

/// The descriptors that a worker shares with its tuner.
inline constexpr int kChannelFd = 3, kStatusFd = 4, kSharedFd = 5;

}  // namespace heddle::measuring
