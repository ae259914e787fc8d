// The plan that tuning a model goes on from and writes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "heddle/network/plan.h"
#include "tune/summary.h"
#include "tune/tune_subjects.h"

namespace heddle::cli {

class PlanOutput {
 public:
  /// `file` may hold a plan of an earlier run. `model` and `dtype` are what is tuned. A User error
  /// where the file cannot be written, or is no plan.
  PlanOutput(std::string file, std::string model, std::string dtype);

  /// Goes on from the earlier plan: `list` gets the tasks of the network with its choices about the
  /// graph, and `log` its schedules. A User error for a plan of another target and, unless
  /// `of_others`, of another network.
  void resume(TaskList* list, const std::string& log, bool of_others) const;

  /// Whether the earlier plan, which `network` goes on from, has tried all choices about its graph.
  bool tried_choices(const Network& network) const;

  /// Writes what was found, and what of the earlier plan it does not better.
  void save(const Network& network, const TuneOutcome& outcome) const;

 private:
  std::string file_, model_, dtype_;
  std::optional<NetworkPlan> earlier_;
};

}  // namespace heddle::cli
