#include "tune/network_race_place.h"

#include "heddle/measure/fleet.h"
#include "heddle/runtime/thread_pool.h"

namespace heddle::cli {

NetworkRacePlace network_race_place(const Target& target, bool fleet) {
  if (!fleet) return {};
  // Of a GPU no whole network is raced anywhere.
  const bool same = !target.is_cuda() && target.runs_here() &&
                    target.chip() == Target::host().chip() && target.cores <= default_num_threads();
  if (same) return {true, "the whole network is raced on this machine, tasks on the fleet"};
  const std::string why = target.is_cuda()
                              ? "kernels for GPUs are not raced in their network"
                              : "this machine is no '" + fleet_resource(target) + "' of " +
                                    std::to_string(target.cores) + " threads";
  return {false, "each task is raced by itself, on one device of the fleet: " + why};
}

}  // namespace heddle::cli
