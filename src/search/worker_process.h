// A worker process as the tuner sees it: forked from it, spoken to through a channel, watched, and
// killed.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "heddle/records/record.h"
#include "search/worker_channel.h"

namespace heddle::search {

enum class WorkerPhase : int32_t { Idle, Compile, Run, Check, Reference };
const char* to_string(WorkerPhase phase);

/// What a worker does at the moment, in memory that it shares with the tuner: still there to read
/// when the worker is dead.
struct WorkerStatus {
  std::atomic<int32_t> candidate{-1};
  std::atomic<WorkerPhase> phase{WorkerPhase::Idle};
  std::atomic<int64_t> since_ns{0};  ///< of the steady clock

  void set(WorkerPhase what, int of_candidate) {
    candidate.store(of_candidate);
    phase.store(what);
    since_ns.store(std::chrono::steady_clock::now().time_since_epoch().count());
  }
};

/// How a worker died.
struct WorkerDeath {
  MeasureError error = MeasureError::Crash;
  std::string message;  ///< "SIGSEGV while running"
  WorkerPhase phase = WorkerPhase::Idle;
  int candidate = -1;  ///< that it was busy with
};

class WorkerProcess {
 public:
  struct Start {
    /// Bytes a worker may allocate above what it starts with; 0: no limit.
    int64_t memory_limit_bytes = 0;
    /// What runs in the worker; its process ends when this returns.
    std::function<void(Channel&, WorkerStatus&)> main;
    pid_t (*fork)() = nullptr;  ///< null: the system's; for tests
  };
  /// Throws a Runtime error when the system allows no process.
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

 private:
  [[noreturn]] void run_child(const Start& start, int fd);
  std::string last_words() const;

  pid_t pid_ = -1;
  Channel channel_;
  WorkerStatus* status_ = nullptr;
  int noise_ = -1;  ///< a file in memory that takes what the worker prints
};

/// Exit status of a worker in which an allocation failed.
inline constexpr int kExitOutOfMemory = 77;

}  // namespace heddle::search
