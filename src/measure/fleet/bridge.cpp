#include "measure/fleet/bridge.h"

#include <poll.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "heddle/support/error.h"
#include "support/log.h"

namespace heddle::measuring {
namespace {

constexpr int kMostDeaths = 3;
// Seconds from the second death in a row to the next start.
constexpr double kPauseSeconds = 1;
// Seconds for the bridge to give back its actors before it ends.
constexpr double kEndSeconds = 3;

bool wait_readable(int fd, double seconds) {
  pollfd readable{fd, POLLIN, 0};
  return ::poll(&readable, 1, static_cast<int>(std::max(0.0, seconds) * 1e3)) > 0;
}

}  // namespace

FleetBridge::~FleetBridge() {
  if (!process_) return;
  Channel& channel = process_->channel();
  channel.send(encode(End{}));
  const Timer timer;
  while (timer.elapsed_s() < kEndSeconds) {
    if (!wait_readable(channel.fd(), kEndSeconds - timer.elapsed_s())) break;
    if (channel.read_available() == Channel::State::Closed) break;
  }
}

void FleetBridge::start() {
  process_ =
      std::make_unique<WorkerProcess>(WorkerProcess::Start{.command = command_, .hello = hello_});
  ++starts_;
}

void FleetBridge::died(const std::string& why) {
  process_.reset();
  HEDDLE_LOG_AT("search", 1, "the program that speaks to Ray died: " + why);
  if (deaths_ == 0) away_ = Timer();
  pause_ = Timer();
  pause_seconds_ = deaths_ == 0 ? 0 : kPauseSeconds;
  if (++deaths_ < kMostDeaths || patient()) return;
  throw_runtime_error("the program that uses Ray died repeatedly: " + why, {},
                      "see that '" + command_.back() + "' works: `heddle fleet status`");
}

std::optional<BridgeSays> FleetBridge::next() {
  const std::optional<Json> json = process_->channel().next();
  if (!json) return std::nullopt;
  BridgeSays message = decode_any<BridgeSays>(*json);
  if (const Started* started = std::get_if<Started>(&message)) {
    if (started->message) {
      if (patient()) throw_runtime_error(*started->message);  // and is asked again
      process_.reset();
      throw_user_error(*started->message, {},
                       started->help.value_or("docs/guide/fleets.md says what is needed"));
    }
  } else {
    deaths_ = 0;
    worked_ = true;
  }
  return message;
}

std::optional<BridgeSays> FleetBridge::receive(double seconds) {
  if (!process_ && !due()) {
    const double left = std::min(seconds, pause_seconds_ - pause_.elapsed_s());
    std::this_thread::sleep_for(std::chrono::duration<double>(std::max(0.0, left)));
    return std::nullopt;
  }
  if (!process_) start();
  Channel& channel = process_->channel();
  std::string nonsense;
  try {
    if (std::optional<BridgeSays> message = next()) return message;
    if (!wait_readable(channel.fd(), seconds)) return std::nullopt;
    const Channel::State state = channel.read_available();
    if (std::optional<BridgeSays> message = next()) return message;
    if (state == Channel::State::Open) return std::nullopt;
  } catch (const Error& e) {
    if (!process_) throw;  // the bridge refused
    nonsense = e.message;
  }
  died(nonsense.empty() ? process_->bury().message : nonsense);
  return std::nullopt;
}

}  // namespace heddle::measuring
