// The plan that tuning a model goes on from and writes.
#pragma once

#include <string>

#include "heddle/network/plan.h"

namespace heddle::cli {

class PlanOutput {
 public:
  /// `file` may hold a plan of an earlier run. `model` and `dtype` are what is tuned. A User error
  /// where the file cannot be written, or is no plan.
  PlanOutput(std::string file, std::string model, std::string dtype);

  const std::string& file() const { return file_; }

  /// Writes what was found, and what of the earlier plan it does not better.
  void save(NetworkPlan plan) const;

 private:
  std::string file_, model_, dtype_;
};

}  // namespace heddle::cli
