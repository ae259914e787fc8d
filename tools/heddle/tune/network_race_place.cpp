#include "tune/network_race_place.h"

#include "heddle/measure/fleet.h"
#include "heddle/runtime/thread_pool.h"

namespace heddle::cli {
namespace {

/// Whether this machine is of the kind that the fleet measures for.
bool same_kind(const Target& target) {
  if (!target.runs_here()) return false;
  if (target.is_cuda()) return fleet_resource(Target::cuda()) == fleet_resource(target);
  return target.chip() == Target::host().chip() && target.cores <= default_num_threads();
}

}  // namespace

NetworkRacePlace network_race_place(const Target& target, bool fleet) {
  if (!fleet) return {};
  if (same_kind(target))
    return {true, "the whole network is raced on this machine, tasks on the fleet"};
  const std::string kind = "'" + fleet_resource(target) + "'";
  const std::string why = target.is_cuda() ? "this machine has no " + kind
                                           : "this machine is no " + kind + " of " +
                                                 std::to_string(target.cores) + " threads";
  return {false, "each task is raced by itself, on one device of the fleet: " + why};
}

}  // namespace heddle::cli
