// Nearness: how probable it is that the best that a search has found is within a share w of what it would find if it
// went on.
//
//   P = p / (p + (1 - p) 2^(-n / h)),  p = w / (w + s)
//
// n trials were made since the last gain of 1 %. Where there is more to find, half of all searches find some of it
// within h trials. s is the share by which the best is off in one of two cases: that of the certificate of the first
// schedule (heuristics/certificate.h) where there is one, else what was seen of other tasks, and after a gain what was
// seen after gains. docs/measurements/tuning.md has the logs that the constants are from.
#pragma once

#include <optional>
#include <span>

namespace heddle::search {

class Nearness {
 public:
  /// `certified`: the probability that the first schedule is within kCertifiedShare of the best of its choices.
  explicit Nearness(std::optional<double> certified = std::nullopt);
  /// Adds a trial, after which the best time is `best_seconds`; 0: nothing works yet.
  void add(double best_seconds);
  /// States that there is nothing left to try.
  void exhaust() { exhausted_ = true; }
  /// That the best so far is within `share`, which is above 0; 0 where nothing works.
  double probability(double share) const;
  /// That more is found in so many further trials, which is a gain of kFoundGain on average.
  double found_by(double trials) const;

 private:
  double odds_share_;       ///< s
  double gained_from_ = 0;  ///< the time that a gain is measured against
  int without_gain_ = 0;    ///< n
  bool exhausted_ = false;
};

/// A task after tuning, for an estimate of what more tuning would give.
struct TunedTask {
  Nearness nearness = Nearness();
  double seconds = 0;        ///< of all calls of it
  double least_seconds = 0;  ///< no schedule is faster; 0: not known
  double trial_seconds = 0;  ///< what a trial takes; 0: not known
};
/// The share of the time of all tasks that `seconds` more of tuning would save on average, where trials go to the task
/// of which most is expected for each second. 0 where nothing is known.
double expected_gain(std::span<const TunedTask> tasks, double seconds);

}  // namespace heddle::search
