// The tuner's connection to the program that uses Ray: it starts the program, exchanges messages,
// and restarts it when it dies.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/support/json.h"
#include "measure/worker_process.h"

namespace heddle::measuring {

/// What tuner and bridge say to each other, in frames as workers do (worker_channel.h). The tuner:
///
///   {do: hello, ..., address, resource, worker, compiler, device}   as to a worker, and
///      `worker`: the command of a worker; `compiler`, `device`: hellos for nodes (node_server.h)
///   {do: task, task, ...}                      what nodes are to be told of a task
///   {do: compile, job, task, steps, no_spills}
///   {do: measure or race, round, device, task, seconds, best?, base_job?,
///    candidates: [{trial, steps, job?}]}       `job`: its code was compiled by that
///   {do: drop, jobs: [job...]}                 their code is not needed any more
///   {do: end}
///
/// The bridge, in any order:
///
///   {started, message?}                        `message`: why it cannot work
///   {device, machine, build}, {gone: device, why}
///   {compilers: how many}
///   {compiled: job, seconds} or {compiled: job, error, message} or {compiled: job, lost: why}
///   {round, device, results: [{trial, ...}], failed?, problem?} or {round, device, lost: why}
class FleetBridge {
 public:
  FleetBridge(std::vector<std::string> command, Json hello)
      : command_(std::move(command)), hello_(std::move(hello)) {}
  ~FleetBridge();
  FleetBridge(const FleetBridge&) = delete;
  FleetBridge& operator=(const FleetBridge&) = delete;

  /// Sends a message. Starts the program if it does not run.
  void send(const Json& message);
  /// The next message. Nothing when none arrives within `seconds`, or when the program died, in
  /// which case a new one was started. Throws a User error when the program refuses its options,
  /// and a Runtime error when it dies repeatedly.
  std::optional<Json> receive(double seconds);
  /// The number of starts. A new program does not know the messages that were sent to the previous
  /// one.
  int starts() const { return starts_; }

 private:
  void start();
  void died(const std::string& why);
  std::optional<Json> next();

  std::vector<std::string> command_;
  Json hello_;
  std::unique_ptr<WorkerProcess> process_;
  int starts_ = 0;
  int deaths_ = 0;  ///< deaths since the last message
};

}  // namespace heddle::measuring
