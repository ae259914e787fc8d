// The files of what a machine has learned: trees, which tophub_file finds, and the logs that they were trained on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "heddle/heuristics/heuristic.h"
#include "heddle/target/target.h"

namespace heddle::learning {

class LearnedFiles {
 public:
  /// `folder`: empty for learned_folder(). Throws a User error where there is none.
  LearnedFiles(const Target& target, const std::string& folder);

  const std::string& folder() const { return folder_; }
  /// Makes the folder where it is missing. Throws a Runtime error where that is not possible.
  void make_folder() const;
  std::string tree_of(const Heuristic& h) const;
  /// The constants of rules.
  std::string constants() const;
  std::string certificates() const;
  /// The problems that HEDDLE_COLLECT logged.
  std::string asked() const;
  /// The log of this target and seed. Its number of threads is in the name, because a log is of one target. Runs with
  /// seeds of their own may share the folder, side by side.
  std::string log_of(const Heuristic& h, std::uint64_t seed) const;
  /// Renames the logs of the chip whose features are not those that the heuristic has now, so that new ones are begun.
  /// Returns a sentence for each.
  std::vector<std::string> set_aside(const Heuristic& h) const;
  /// The existing logs of this target, of any seed.
  std::vector<std::string> logs_of_threads(const Heuristic& h) const;
  /// The existing logs of the chip, of this version of the heuristic, for any number of threads.
  std::vector<std::string> logs_of(const Heuristic& h) const;

 private:
  std::string log_start(const Heuristic& h) const;
  std::vector<std::string> logs_that_start(const std::string& start) const;
  const Target target_;
  const std::string folder_;
};

}  // namespace heddle::learning
