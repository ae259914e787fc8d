// PredictionLog: what the cost model said before a candidate was measured, and what was measured.
#pragma once

#include <map>
#include <vector>

#include "heddle/cost_model/cost_model.h"

namespace heddle {

class PredictionLog {
 public:
  void add(int task, double predicted, double throughput) {
    tasks_[task].first.push_back(predicted);
    tasks_[task].second.push_back(throughput);
  }
  /// The mean over tasks, each by its number of samples; only within a task do scores compare.
  ModelAccuracy accuracy() const;

 private:
  std::map<int, std::pair<std::vector<double>, std::vector<double>>> tasks_;
};

}  // namespace heddle
