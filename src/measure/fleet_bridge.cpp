#include "measure/fleet_bridge.h"

#include <poll.h>

#include <algorithm>

#include "heddle/runtime/timer.h"
#include "heddle/support/error.h"
#include "heddle/support/log.h"

namespace heddle::measuring {
namespace {

constexpr int kMostDeaths = 3;
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
  channel.send(Json::object({{"do", "end"}}));
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
  if (++deaths_ < kMostDeaths) return start();
  throw_runtime_error("the program that uses Ray died repeatedly: " + why, {},
                      "see that '" + command_.back() + "' works: `heddle fleet status`");
}

void FleetBridge::send(const Json& message) {
  if (!process_) start();
  process_->channel().send(message);  // listening will show if the process is dead
}

std::optional<Json> FleetBridge::next() {
  std::optional<Json> message = process_->channel().next();
  if (!message) return message;
  if (message->contains("started")) {
    if (const Json* refusal = message->find("message")) {
      const std::string why = refusal->as_string();
      process_.reset();
      throw_user_error(why, {}, message->get_string("help", "docs/fleet.md says what is needed"));
    }
  } else {
    deaths_ = 0;
  }
  return message;
}

std::optional<Json> FleetBridge::receive(double seconds) {
  if (!process_) start();
  Channel& channel = process_->channel();
  std::string nonsense;
  try {
    if (std::optional<Json> message = next()) return message;
    if (!wait_readable(channel.fd(), seconds)) return std::nullopt;
    const Channel::State state = channel.read_available();
    if (std::optional<Json> message = next()) return message;
    if (state == Channel::State::Open) return std::nullopt;
  } catch (const Error& e) {
    if (!process_) throw;  // the bridge refused
    nonsense = e.message;
  }
  died(nonsense.empty() ? process_->bury().message : nonsense);
  return std::nullopt;
}

}  // namespace heddle::measuring
