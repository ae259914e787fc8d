// A network as it is deployed, with one of several schedules of each task.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "network/race/timed_network.h"

namespace heddle::network {

/// Networks that are built at the first use of their variants, each with kernels and weights of its
/// own. For nodes of a GPU that share launches: their kernels depend on all schedules at once.
class DeployedVariants {
 public:
  /// `available` has the positions in `schedules` of the variants of each task, the static choice
  /// first. All of them outlive this object.
  DeployedVariants(const Network& network, std::span<const std::vector<Schedule>> schedules,
                   const std::vector<std::vector<int>>& available);

  /// Times a call.
  CallTimes call(std::span<const int> variants) { return of(variants).call(); }
  /// As VariantRunner::difference.
  std::string difference(std::span<const int> variants);

 private:
  TimedNetwork& of(std::span<const int> variants);

  const Network& network_;
  const std::span<const std::vector<Schedule>> schedules_;
  const std::vector<std::vector<int>>& available_;
  const std::vector<Tensor> args_;
  const std::vector<NDArray> arrays_;
  std::map<std::vector<int>, std::unique_ptr<TimedNetwork>> built_;
};

}  // namespace heddle::network
