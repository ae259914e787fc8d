// Measuring on many machines at once, which Ray (ray.io) brings together (docs/guide/fleets.md).
//
//   const auto fleet = make_fleet_measurer({.target = target, .address = "ray://head:10001"});
//   tune({D}, {.budget = 600s, .target = target, .measurer = fleet.get()});
//
// A Python program beside the tuner, heddle-fleet, is the only part that knows of Ray. It starts
// workers on the nodes and relays what the tuner asks of them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "heddle/measure/measure.h"

namespace heddle {

/// Options of a measurer that uses the devices of a Ray cluster (docs/guide/fleets.md).
struct FleetOptions {
  Target target = {};  ///< of all tasks
  /// The cluster: "ray://host:port", "host:port", "auto" (the cluster of this machine), or "local":
  /// a cluster of this machine alone, which ends with the tuner.
  std::string address = "auto";
  std::string resource = {};  ///< name of the devices' Ray resource; empty: fleet_resource(target)
  MeasureProtocol protocol = {};
  double join_seconds = 60;  ///< a run that has no device for this time fails
  /// The program that speaks to Ray, and its arguments. Empty: fleet_command().
  std::vector<std::string> command = {};
};

/// A measurer whose devices are those of a cluster that have the target's resource. Devices may
/// join and leave at any time, and work that one of them leaves unfinished is measured by another.
/// Each result has the time of the static choice on the same device beside it (base_seconds), so
/// that devices of different speed compare. A race runs on one device. The first use throws a
/// Runtime error where there is no such cluster, and a User error where Ray is not installed.
std::unique_ptr<Measurer> make_fleet_measurer(const FleetOptions& options);

/// The name of the Ray resource for the chip of a target: "cpu:znver3", "gpu:h200".
std::string fleet_resource(const Target& target);

/// The program heddle-fleet: what HEDDLE_FLEET names, or the one that was built or installed with
/// this library. It is run by the interpreter that HEDDLE_PYTHON names, or python3. Throws a
/// Runtime error where it is missing.
std::vector<std::string> fleet_command();

}  // namespace heddle
