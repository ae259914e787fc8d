// The tuner's connection to the program that uses Ray: it starts the program, exchanges messages,
// and restarts it when it dies.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "heddle/runtime/timer.h"
#include "heddle/support/json.h"
#include "measure/messages/fleet.h"
#include "measure/process/process.h"

namespace heddle::measuring {

/// The messages are those of messages/fleet.h, in frames as workers have them (channel.h).
class FleetBridge {
 public:
  /// `patience_seconds`: so long a cluster that has answered before may be away.
  FleetBridge(std::vector<std::string> command, Json hello, double patience_seconds)
      : command_(std::move(command)), hello_(std::move(hello)), patience_(patience_seconds) {}
  ~FleetBridge();
  FleetBridge(const FleetBridge&) = delete;
  FleetBridge& operator=(const FleetBridge&) = delete;

  /// Sends a message. Starts the program if it does not run and no pause is left. A message is lost
  /// while there is no program.
  template <class Message>
  void send(const Message& message) {
    if (!process_ && due()) start();
    if (process_) process_->channel().send(encode(message));  // listening will show if it is dead
  }
  /// The next message. Nothing when none arrives within `seconds`, or when the program died, in
  /// which case a new one is started. Throws a User error when the program refuses its options,
  /// and a Runtime error when it dies repeatedly. A program that has worked before is started again
  /// until the patience ends, because the cluster may be restarted in that time.
  std::optional<BridgeSays> receive(double seconds);
  /// The number of starts. A new program does not know the messages that were sent to the previous
  /// one.
  int starts() const { return starts_; }

 private:
  void start();
  bool due() const { return pause_.elapsed_s() >= pause_seconds_; }
  bool patient() const { return worked_ && (deaths_ == 0 || away_.elapsed_s() < patience_); }
  void died(const std::string& why);
  std::optional<BridgeSays> next();

  std::vector<std::string> command_;
  Json hello_;
  double patience_;
  std::unique_ptr<WorkerProcess> process_;
  int starts_ = 0;
  int deaths_ = 0;            ///< deaths since the last message
  bool worked_ = false;       ///< a message has arrived
  Timer away_;                ///< time since the first death after the last message
  Timer pause_;               ///< time since the last death
  double pause_seconds_ = 0;  ///< time from the last death to the next start
};

}  // namespace heddle::measuring
