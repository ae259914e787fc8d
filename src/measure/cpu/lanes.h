// The number of candidates of a task that may be timed at the same time, and the CPUs of each.
//
// A machine with many more cores than a kernel has threads can time several at once. They share the
// last cache and the memory bus. The static choice is therefore timed alone at first, and beside
// other runs afterwards. Where it then takes significantly longer, fewer candidates run at once.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace heddle::measuring {

class RunLanes {
 public:
  /// One lane, where the CPUs are not known.
  RunLanes() = default;
  /// `cpus` has one CPU of each core. `asked` is the requested number of lanes; 0 means as many as
  /// leave half of the cores idle.
  RunLanes(std::vector<int> cpus, int threads, int asked);

  /// The number of lanes of the next runs. One until the time of the static choice alone is known.
  size_t count() const { return alone_ > 0 ? most_ : 1; }
  /// The CPUs of a lane. Empty where there is one lane, which is not pinned.
  std::span<const int> cpus_of(size_t lane) const;

  /// The times of the static choice, one of each lane that ran at the same time. Returns whether
  /// the number of lanes changed.
  bool learn(std::span<const double> static_seconds);

  /// The time of the static choice beside others over its time alone; 0: not known.
  double contention() const { return contention_; }

 private:
  std::vector<int> cpus_;
  size_t threads_ = 1, most_ = 1;
  bool fixed_ = false;  ///< the requested number is not changed
  double alone_ = 0, contention_ = 0;
};

}  // namespace heddle::measuring
