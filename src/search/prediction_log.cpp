#include "search/prediction_log.h"

namespace heddle::search {

ModelAccuracy PredictionLog::accuracy() const {
  ModelAccuracy all;
  for (const auto& [task, rows] : tasks_) {
    if (rows.first.size() < 2) continue;
    ModelAccuracy a = evaluate_ranking(rows.first, rows.second);
    all.spearman += a.spearman * a.samples;
    all.top10_recall += a.top10_recall * a.samples;
    all.best_of_top10 += a.best_of_top10 * a.samples;
    all.samples += a.samples;
  }
  if (all.samples > 0) {
    all.spearman /= all.samples;
    all.top10_recall /= all.samples;
    all.best_of_top10 /= all.samples;
  }
  return all;
}

}  // namespace heddle::search
