// The devices of a fleet as the tuner sees them: who is there, who is steady, who has what to do.
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
  std::deque<int64_t> rounds;  ///< that it was given and has not answered, the oldest first
  Timer since_answer = {};
  bool silent = false;        ///< it does not answer, and is given nothing until it does
  int failures_in_a_row = 0;  ///< rounds in which nothing could be measured
  std::map<int, std::deque<double>> bases;  ///< by task: the last times of the static choice
  double joined = 0, busy_since = 0;        ///< on the clock of FleetDevices

  bool usable() const { return !use.gone && use.set_aside.empty() && !silent; }
};

class FleetDevices {
 public:
  void join(const std::string& name, const std::string& machine);
  void leave(const std::string& name);
  void all_leave();

  FleetDevice* find(const std::string& name);
  /// Usable, those with the fewest rounds first, then those that measured least.
  std::vector<FleetDevice*> usable();
  /// The one on which most was measured, that races be comparable; null: there is none.
  FleetDevice* steadiest();

  void give(FleetDevice& device, int64_t round);
  void take_back(FleetDevice& device, int64_t round);
  /// The time of the static choice of a task in one more round. A device on which it wanders from
  /// round to round is set aside, unless it is the last one.
  void add_base(FleetDevice& device, int task, double seconds);
  /// No more rounds, for this reason. False for the last usable device.
  bool set_aside(FleetDevice& device, const std::string& why);

  std::vector<NodeUse> use() const;
  std::vector<std::string> problems() const;

 private:
  Timer clock_;
  std::map<std::string, FleetDevice> devices_;
};

/// Record::machine: the fingerprint does not tell machines of one kind apart.
inline std::string name_in_records(const NodeUse& device) {
  return device.machine + " at " + device.name;
}

/// How much a series of times changes from one to the next, relative to its median: the mean. 0 for
/// fewer than six.
double wandering(const std::deque<double>& times);

}  // namespace heddle::measuring
