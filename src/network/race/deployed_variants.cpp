#include "network/race/deployed_variants.h"

#include "network/run/output_difference.h"

namespace heddle::network {

DeployedVariants::DeployedVariants(const Network& network,
                                   std::span<const std::vector<Schedule>> schedules,
                                   const std::vector<std::vector<int>>& available)
    : network_(network),
      schedules_(schedules),
      available_(available),
      args_(call_args(network)),
      arrays_(random_arrays(args_, device_of(network.tasks()[0].tmpl.target()))) {}

std::string DeployedVariants::difference(std::span<const int> variants) {
  const std::vector<NDArray> want = of(std::vector<int>(variants.size(), 0)).outputs();
  return output_difference(network_.outputs(), of(variants).outputs(), want);
}

TimedNetwork& DeployedVariants::of(std::span<const int> variants) {
  std::unique_ptr<TimedNetwork>& network = built_[{variants.begin(), variants.end()}];
  if (network) return *network;
  std::vector<Schedule> chosen;
  for (size_t t = 0; t < schedules_.size(); ++t) {
    const int position = available_[t][static_cast<size_t>(variants[t])];
    chosen.push_back(schedules_[t][static_cast<size_t>(position)]);
  }
  network = std::make_unique<TimedNetwork>(network_, chosen, args_, arrays_);
  return *network;
}

}  // namespace heddle::network
