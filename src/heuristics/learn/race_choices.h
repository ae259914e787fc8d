// What the rules take for the problems of races, with the constants so far and with others.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/target/rule_constants.h"
#include "heuristics/learn/calibrate.h"

namespace heddle::learning {

/// The races whose rule was measured, in an order that depends on their ids and the seed alone.
class RaceChoices {
 public:
  /// `races` and `expired`, which may be empty, must outlive it. Where the time is over, nothing is known to decide.
  RaceChoices(const std::vector<CalibrationRace>& races, std::string_view kind, std::uint64_t seed,
              const std::function<bool()>& expired);

  std::size_t size() const { return races_.size(); }
  const CalibrationRace& race(std::size_t r) const { return *races_[r]; }
  /// What the rule takes with the constants so far: a key of the race's times.
  const std::string& key(std::size_t r) const { return keys_[r]; }
  double seconds(std::size_t r) const { return races_[r]->seconds.at(keys_[r]); }
  /// Numbers from 0 to before `folds`, one for each race. Folds have nearly equal sizes, and a problem that several heuristics
  /// measured is in one of them.
  std::vector<int> folds_of(int folds) const;

  /// The races that a constant is known to decide beside the constants so far. Constants are asked in groups first, where some
  /// may hide others, so there may be more of them.
  std::vector<std::size_t> decided_by(const ConstantInfo& info) const;
  /// All races that it decides: each is asked.
  std::vector<std::size_t> decided_alone_by(const ConstantInfo& info);
  /// What the rule takes for these races with another value of a constant.
  std::vector<std::string> chosen(const std::vector<std::size_t>& races, const ConstantInfo& info,
                                  double value) const;
  /// Moves a constant for the races that it decides. A choice without a time stays with the time so far. Returns the number
  /// of races whose choice changes.
  int move(const ConstantInfo& info, double value);

 private:
  std::uint64_t place(const CalibrationRace& r) const;
  /// Finds the constants that decide these races beside those so far.
  void find_deciding(const std::vector<std::size_t>& races);

  std::string_view kind_;
  std::uint64_t seed_;
  const std::function<bool()>& expired_;
  std::vector<const CalibrationRace*> races_;
  std::vector<std::string> keys_;
  /// The constants so far, for each race. Those that do not decide it stay at their defaults, so that what was looked up
  /// before they moved is found.
  std::vector<RuleConstants> at_;
  std::vector<std::vector<const ConstantInfo*>> deciding_;  ///< each race
};

}  // namespace heddle::learning
