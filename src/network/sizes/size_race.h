// Times several kernels of each task over dimensions in calls of the whole network.
#pragma once

#include <vector>

#include "heddle/dag/instance.h"
#include "heddle/network/network.h"
#include "network/cut/sizes/family_tasks.h"

namespace heddle::network {

class SizeRace {
 public:
  /// Compiles all `candidates`: by task, where the tree of a task is not used. Those whose packed
  /// weights do not fit into a third of the free memory, with the ones before them, do not race.
  SizeRace(const Network& network, const std::vector<TaskVariants>& candidates);

  /// How many candidates of each task race: the first ones.
  const std::vector<size_t>& counts() const { return counts_; }

  /// The seconds of all nodes of a task in one call at these sizes, by task and candidate: the
  /// least of at least two rounds, in which the candidates take turns, and of more rounds while
  /// less than `seconds` have passed. One that takes more than twice as long as the best one of its
  /// task has one round. On a GPU the calls are CUDA graphs (network/sizes/total_size_race.h).
  std::vector<std::vector<double>> at(const std::vector<SizeValue>& sizes, double seconds) const;

  /// The seconds of whole calls at these sizes, by rival. A rival names a candidate for each task.
  /// They take turns, three times at least and longer while less than `seconds` have passed.
  std::vector<std::vector<double>> whole_at(const std::vector<SizeValue>& sizes,
                                            const std::vector<std::vector<size_t>>& rivals,
                                            double seconds) const;

 private:
  struct RandomCall;

  const Network network_;
  NetworkKernel kernel_;  ///< whose steps have all candidates
  std::vector<size_t> counts_;
};

}  // namespace heddle::network
