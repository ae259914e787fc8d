#include "measure/fleet/devices.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

namespace heddle::measuring {
namespace {

constexpr size_t kBases = 8, kFewestBases = 6;
// The largest change of the base time from round to round. A steady machine drifts by some per
// cent. If the base changes more, a ratio to it says nothing about a candidate.
constexpr double kMostWandering = 0.2;

}  // namespace

double wandering(const std::deque<double>& times) {
  if (times.size() < kFewestBases) return 0;
  double changes = 0;
  for (size_t i = 1; i < times.size(); ++i) changes += std::abs(times[i] - times[i - 1]);
  std::vector<double> sorted(times.begin(), times.end());
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(sorted.size() / 2),
                   sorted.end());
  return changes / static_cast<double>(times.size() - 1) / sorted[sorted.size() / 2];
}

void FleetDevices::join(const std::string& name, const std::string& machine) {
  const double now = clock_.elapsed_s();
  FleetDevice& device = devices_[name];
  device.use.name = name;
  device.use.machine = machine;
  if (device.use.gone)
    device.joined = now - device.use.seconds;  // the time while it was away does not count
  if (device.use.seconds == 0) device.joined = now;
  device.use.gone = false;
  device.silent = false;
}

void FleetDevices::leave(const std::string& name) {
  FleetDevice* device = find(name);
  if (device == nullptr || device->use.gone) return;
  while (!device->rounds.empty()) take_back(*device, device->rounds.front());
  device->use.seconds = clock_.elapsed_s() - device->joined;
  device->use.gone = true;
}

void FleetDevices::all_leave() {
  for (const auto& [name, device] : devices_) leave(name);
}

FleetDevice* FleetDevices::find(const std::string& name) {
  const auto at = devices_.find(name);
  return at == devices_.end() ? nullptr : &at->second;
}

std::vector<FleetDevice*> FleetDevices::usable() {
  std::vector<FleetDevice*> out;
  for (auto& [name, device] : devices_) {
    if (device.usable()) out.push_back(&device);
  }
  std::stable_sort(out.begin(), out.end(), [](const FleetDevice* a, const FleetDevice* b) {
    return std::pair(a->rounds.size(), a->use.trials) < std::pair(b->rounds.size(), b->use.trials);
  });
  return out;
}

FleetDevice* FleetDevices::steadiest() {
  FleetDevice* best = nullptr;
  for (FleetDevice* device : usable()) {
    if (best == nullptr || device->use.trials > best->use.trials) best = device;
  }
  return best;
}

void FleetDevices::give(FleetDevice& device, int64_t round) {
  if (device.rounds.empty()) device.busy_since = clock_.elapsed_s();
  device.rounds.push_back(round);
}

void FleetDevices::take_back(FleetDevice& device, int64_t round) {
  if (std::erase(device.rounds, round) == 0 || !device.rounds.empty()) return;
  device.use.busy_seconds += clock_.elapsed_s() - device.busy_since;
}

void FleetDevices::add_base(FleetDevice& device, int task, double seconds) {
  std::deque<double>& bases = device.bases[task];
  bases.push_back(seconds);
  if (bases.size() > kBases) bases.pop_front();
  const double wanders = wandering(bases);
  if (wanders <= kMostWandering || !device.usable()) return;
  char share[32];
  std::snprintf(share, sizeof share, "%.0f", 100 * wanders);
  set_aside(device, "the time of the static choice changes by " + std::string(share) +
                        " % from round to round");
}

bool FleetDevices::set_aside(FleetDevice& device, const std::string& why) {
  if (device.usable() && usable().size() < 2) return false;
  device.use.set_aside = why;
  return true;
}

std::vector<NodeUse> FleetDevices::use() const {
  std::vector<NodeUse> out;
  const double now = clock_.elapsed_s();
  for (const auto& [name, device] : devices_) {
    out.push_back(device.use);
    if (!device.use.gone) out.back().seconds = now - device.joined;
    if (!device.rounds.empty()) out.back().busy_seconds += now - device.busy_since;
  }
  return out;
}

std::vector<std::string> FleetDevices::problems() const {
  std::vector<std::string> out;
  for (const auto& [name, device] : devices_) {
    if (device.use.set_aside.empty()) continue;
    out.push_back("'" + name + "' was set aside: " + device.use.set_aside);
  }
  return out;
}

}  // namespace heddle::measuring
