// A worker process as the tuner sees it: a program of its own, spoken to through a channel,
// watched, and killed. It compiles, and forks a runner of itself to call what it compiled: what a
// kernel does to its process is gone with the runner, and the other kernels are still there.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "heddle/records/record.h"
#include "measure/worker_channel.h"

namespace heddle::measuring {

/// FirstCall is the one that may be cut short: see WorkerPool::ask.
enum class WorkerPhase : int32_t { Idle, Compile, Prepare, FirstCall, Run, Check, Reference };
const char* to_string(WorkerPhase phase);

/// What a worker does at the moment, in memory that it shares with the tuner: still there to read
/// when the worker is dead.
struct WorkerStatus {
  std::atomic<int32_t> candidate{-1};
  std::atomic<WorkerPhase> phase{WorkerPhase::Idle};
  std::atomic<int64_t> since_ns{0};  ///< of the steady clock
  std::atomic<pid_t> runner{0};      ///< its child, if it has one now
  std::atomic<int64_t> request{0};   ///< id of the last one it, or its runner, has received

  void set(WorkerPhase what, int of_candidate) {
    candidate.store(of_candidate);
    phase.store(what);
    since_ns.store(std::chrono::steady_clock::now().time_since_epoch().count());
  }
};

/// How a worker died, or its runner.
struct WorkerDeath {
  MeasureError error = MeasureError::Crash;
  std::string message;  ///< "SIGSEGV while running"
  WorkerPhase phase = WorkerPhase::Idle;
  int candidate = -1;  ///< that it was busy with
};

class WorkerProcess {
 public:
  struct Start {
    /// The program and its arguments (worker_program.h). Where it finds what it shares with this
    /// process is added.
    std::vector<std::string> command;
    int shared_fd = -1;         ///< of the SharedMemory that it is to see; -1: of none
    Json hello;                 ///< the first message (worker_protocol.h)
    double start_seconds = 20;  ///< one that has not answered it by then is replaced
  };
  /// Safe whatever else this process does: with many threads, or with a GPU in use. Throws a
  /// Runtime error when the program cannot be run or the system allows no process.
  explicit WorkerProcess(const Start& start);
  /// Kills it if it lives, and leaves nothing of it.
  ~WorkerProcess();
  WorkerProcess(const WorkerProcess&) = delete;
  WorkerProcess& operator=(const WorkerProcess&) = delete;

  pid_t pid() const { return pid_; }
  /// Looks; an idle worker may have been killed by anyone.
  bool alive();
  Channel& channel() { return channel_; }
  const WorkerStatus& status() const { return *status_; }
  /// Waits for the end of a worker whose channel closed, or that is killed now, and says why it
  /// died. `timed_out`: it is killed because it took longer than allowed.
  WorkerDeath bury(bool timed_out = false);
  /// Why its runner died, from what waitpid() said of it.
  WorkerDeath explain(int wait_status, bool timed_out) const;
  /// Kills the runner; the worker will say that it died. False when there is none.
  bool kill_runner();

 private:
  std::string last_words() const;

  pid_t pid_ = -1;
  Channel channel_;
  WorkerStatus* status_ = nullptr;
  int noise_ = -1;  ///< a file in memory that takes what the worker prints
};

/// Exit status of a worker in which an allocation failed.
inline constexpr int kExitOutOfMemory = 77;

/// Where a worker finds what it shares with its tuner.
inline constexpr int kChannelFd = 3, kStatusFd = 4, kSharedFd = 5;

}  // namespace heddle::measuring
