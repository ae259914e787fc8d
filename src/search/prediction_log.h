// PredictionLog: the predictions of the cost model and the times that were measured afterwards.
#pragma once

#include <map>
#include <vector>

#include "heddle/cost_model/cost_model.h"

namespace heddle::search {

class PredictionLog {
 public:
  void add(int task, double predicted, double throughput) {
    tasks_[task].first.push_back(predicted);
    tasks_[task].second.push_back(throughput);
  }
  /// The mean over tasks, weighted by their numbers of samples. Scores can be compared within a
  /// task only.
  ModelAccuracy accuracy() const;

 private:
  std::map<int, std::pair<std::vector<double>, std::vector<double>>> tasks_;
};

}  // namespace heddle::search
