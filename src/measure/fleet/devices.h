// The devices of a fleet as the tuner sees them: which are connected, which are steady, and which
// have work.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"
#include "heddle/runtime/timer.h"

namespace heddle::measuring {

struct FleetDevice {
  NodeUse use;
  std::deque<int64_t> rounds;  ///< rounds that it has not answered, the oldest first
  Timer since_answer = {};
  bool silent = false;        ///< it does not answer, and gets no rounds until it does
  int failures_in_a_row = 0;  ///< rounds in which nothing could be measured
  std::map<int, std::deque<double>> bases;  ///< the last times of the static choice of each task
  double joined = 0, busy_since = 0;        ///< seconds on the clock of FleetDevices

  bool usable() const { return !use.gone && use.set_aside.empty() && !silent; }
};

class FleetDevices {
 public:
  void join(const std::string& name, const std::string& machine);
  void leave(const std::string& name);
  void all_leave();

  FleetDevice* find(const std::string& name);
  /// The usable devices, ordered by the number of rounds, then by the number of measurements.
  std::vector<FleetDevice*> usable();
  /// The device with the most measurements, so that races can be compared; null where there is
  /// none.
  FleetDevice* steadiest();

  void give(FleetDevice& device, int64_t round);
  void take_back(FleetDevice& device, int64_t round);
  /// Adds the time of the static choice of a task in a round. A device on which it varies too much
  /// from round to round is set aside, unless it is the last one.
  void add_base(FleetDevice& device, int task, double seconds);
  /// Excludes a device from further rounds. Returns false for the last usable device, which stays.
  bool set_aside(FleetDevice& device, const std::string& why);

  std::vector<NodeUse> use() const;
  std::vector<std::string> problems() const;

 private:
  Timer clock_;
  std::map<std::string, FleetDevice> devices_;
};

/// The name for Record::machine. The fingerprint alone does not distinguish machines of one kind.
inline std::string name_in_records(const NodeUse& device) {
  return device.machine + " at " + device.name;
}

/// The mean change between successive times, relative to their median. 0 for fewer than six times.
double wandering(const std::deque<double>& times);

}  // namespace heddle::measuring
