// How many candidates of a task may be timed at the same time, and on which CPUs each.
//
// A machine with many more cores than a kernel has threads can time several at once. They share the
// last cache and the memory bus. So the static choice is timed alone at first, and beside its like
// afterwards: where that takes it clearly longer, fewer run at once.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace heddle::measuring {

class RunLanes {
 public:
  /// One lane for whom nothing else is known.
  RunLanes() = default;
  /// `cpus`: one of each core. `asked`: the lanes that were asked for; 0: as many as leave half of
  /// the cores idle.
  RunLanes(std::vector<int> cpus, int threads, int asked);

  /// Lanes of the next runs. One until the time of the static choice alone is known.
  size_t count() const { return alone_ > 0 ? most_ : 1; }
  /// The CPUs of a lane; none where there is one lane, which keeps to none.
  std::span<const int> cpus_of(size_t lane) const;

  /// The times of the static choice, one of each lane that ran at the same time. Returns whether
  /// the number of lanes changed.
  bool learn(std::span<const double> static_seconds);

  /// The time beside others over the time alone; 0: not known.
  double contention() const { return contention_; }

 private:
  std::vector<int> cpus_;
  size_t threads_ = 1, most_ = 1;
  bool fixed_ = false;  ///< what was asked for stands
  double alone_ = 0, contention_ = 0;
};

}  // namespace heddle::measuring
