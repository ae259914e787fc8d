// CostModel: ranks candidates before they are measured.
//
//   std::unique_ptr<CostModel> model = make_xgboost_model({.seed = 1});
//   model->update(rows);                             // measured candidates, all tasks mixed
//   std::vector<double> score = model->predict(task, candidates);   // higher is better
//
// The label of a row is its throughput over the best throughput of its task so far: 0..1, and 0 for
// failures. Tasks of any size can therefore share one model.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/cost_model/features.h"

namespace heddle {

/// One measured candidate.
struct TrainingRow {
  uint64_t task = 0;  ///< structural hash combined with the target
  Features features;
  double throughput = 0;  ///< calls per second; 0 for a failure
};

/// A model that predicts the relative speed of candidates of one task.
class CostModel {
 public:
  virtual ~CostModel() = default;
  virtual std::string name() const = 0;
  /// Adds measured rows. The model may retrain at once or when there are enough new rows.
  virtual void update(std::span<const TrainingRow> rows) = 0;
  /// One score for each program, comparable within the task.
  virtual std::vector<double> predict(uint64_t task, std::span<const Features> programs) = 0;
  /// False while predictions are no better than chance, because nothing was learned or loaded.
  virtual bool ready() const = 0;
  /// save and load throw a Runtime error on failure. save is atomic.
  virtual void save(const std::string& path) const = 0;
  virtual void load(const std::string& path) = 0;
};

/// Options of make_xgboost_model. The defaults were chosen on recorded samples. They are
/// about as accurate as deeper and slower models.
struct XgboostOptions {
  uint64_t seed = 0;
  std::string target_kind = "llvm";  ///< kind of target of the programs; it determines the columns
  int rounds = 80;                   ///< boosted trees of a full fit
  int max_depth = 5;
  double eta = 0.15;
  double refit_growth = 0.1;  ///< refit when the rows grew by this share since the last fit
  /// Threads of a fit. With 1 no thread is started, so that the process may fork afterwards.
  int threads = 1;
  std::string objective = "reg:squarederror";  ///< or "rank:pairwise": order within a task
  double min_child_weight = 1;                 ///< least sum of row weights in a leaf
  double columns_share = 0.3;                  ///< share of the columns that each tree may use
  double rows_share = 1;                       ///< share of the rows that each tree is fitted to
  int bins = 32;                               ///< bins of the histogram of a column
};
/// Gradient-boosted trees through XGBoost's C API. Deterministic for one seed and order of rows.
std::unique_ptr<CostModel> make_xgboost_model(const XgboostOptions& options = {});
/// Uniform random scores, the baseline of comparisons.
std::unique_ptr<CostModel> make_random_model(uint64_t seed = 0);

/// How well `predicted` orders `measured` (both: higher is better).
struct ModelAccuracy {
  double spearman = 0;       ///< rank correlation, ties averaged
  double top10_recall = 0;   ///< share of the 10 best measured among the 10 best predicted
  double best_of_top10 = 0;  ///< best measured among the 10 best predicted / best measured
  int samples = 0;
};
/// Compares predictions with measurements of the same length. Throws a User error for different
/// lengths.
ModelAccuracy evaluate_ranking(std::span<const double> predicted, std::span<const double> measured);

}  // namespace heddle
