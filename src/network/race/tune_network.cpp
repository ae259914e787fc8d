#include "heddle/network/network.h"

namespace heddle {

TuneReport tune(const Network& network, const TuneOptions& options) {
  if (options.joint_race || options.measurer) return tune_tasks(network.tasks_to_tune(), options);
  const std::unique_ptr<JointRace> race = make_network_race(network);
  TuneOptions with_race = options;
  with_race.joint_race = race.get();
  return tune_tasks(network.tasks_to_tune(), with_race);
}

}  // namespace heddle
