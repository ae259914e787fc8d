// The learned cost model. Rows keep their raw throughputs and are labelled anew at each fit,
// because labels are relative to the best of the task, which changes.
#include <algorithm>
#include <cmath>
#include <map>

#include "cost_model/booster.h"
#include "heddle/cost_model/cost_model.h"
#include "heddle/support/error.h"
#include "heddle/support/json.h"
#include "support/files/file.h"
#include "support/hashing/hash.h"

namespace heddle {
namespace {

using cost_model::Booster;
using cost_model::DenseRows;
using cost_model::TrainingData;

/// The least number of rows for a meaningful tree.
constexpr size_t kFewestRows = 16;

/// A hash of the names and units of the columns in order. It changes whenever the meaning of a row
/// does.
std::string columns_fingerprint(const std::string& target_kind) {
  uint64_t h = 0;
  for (const FeatureColumn& c : feature_columns(target_kind)) {
    h = hash_combine(hash_combine(h, hash_string(c.name)), hash_string(c.unit));
  }
  return std::to_string(h);
}

class XgboostModel : public CostModel {
 public:
  explicit XgboostModel(const XgboostOptions& options)
      : options_(options), width_(feature_columns(options.target_kind).size()) {}

  std::string name() const override { return "xgboost"; }
  bool ready() const override { return static_cast<bool>(booster_); }

  void update(std::span<const TrainingRow> rows) override {
    for (const TrainingRow& r : rows) check_width(r.features);
    for (const TrainingRow& r : rows) {
      rows_.insert(rows_.end(), r.features.begin(), r.features.end());
      double throughput = std::isfinite(r.throughput) ? std::max(0.0, r.throughput) : 0;
      throughputs_.push_back(throughput);
      tasks_.push_back(r.task);
      best_[r.task] = std::max(best_[r.task], throughput);
    }
    size_t n = throughputs_.size();
    double enough = static_cast<double>(fitted_) * (1 + options_.refit_growth);
    if (n >= kFewestRows && static_cast<double>(n) >= enough && n > fitted_) fit();
  }

  std::vector<double> predict(uint64_t, std::span<const Features> programs) override {
    if (!ready()) return std::vector<double>(programs.size(), 0.0);
    std::vector<float> values;
    values.reserve(programs.size() * width_);
    for (const Features& f : programs) {
      check_width(f);
      values.insert(values.end(), f.begin(), f.end());
    }
    return booster_.predict({values, width_});
  }

  // The file has one line of JSON, then XGBoost's own bytes.
  void save(const std::string& path) const override {
    if (!ready()) {
      throw_runtime_error("cannot save a cost model that has learned nothing to '" + path + "'", {},
                          "update it with measured rows first");
    }
    Json header = Json::object();
    header["heddle_cost_model"] = Json(int64_t{1});
    header["columns"] = Json(columns_fingerprint(options_.target_kind));
    header["width"] = Json(static_cast<int64_t>(width_));
    header["rows"] = Json(static_cast<int64_t>(throughputs_.size()));
    std::string bytes = booster_.save();
    header["bytes"] = Json(static_cast<int64_t>(bytes.size()));
    write_file_atomic(path, header.dump() + "\n" + bytes);
  }

  void load(const std::string& path) override {
    std::string content = read_file(path);
    size_t line = content.find('\n');
    auto bad = [&](const std::string& why) {
      throw_runtime_error("cannot load the cost model '" + path + "': " + why, {},
                          "train it anew from records");
    };
    std::string columns;
    int64_t version = 0, width = 0, size = -1;
    try {
      Json header = Json::parse(content.substr(0, line), path);
      version = header.at("heddle_cost_model").as_int();
      columns = header.at("columns").as_string();
      width = header.at("width").as_int();
      size = header.at("bytes").as_int();
    } catch (const Error&) {
      bad("it is not a cost model of Heddle");
    }
    if (version != 1) bad("it is of version " + std::to_string(version) + ", this one reads 1");
    if (columns != columns_fingerprint(options_.target_kind)) {
      bad("it was trained on other features (" + std::to_string(width) +
          " columns; this program extracts " + std::to_string(width_) + ")");
    }
    std::string bytes = content.substr(line + 1);
    if (static_cast<int64_t>(bytes.size()) != size) {
      bad("it has " + std::to_string(bytes.size()) + " bytes of " + std::to_string(size));
    }
    Booster loaded;
    try {
      loaded = Booster::load(bytes);
    } catch (const Error& e) {
      bad("it is damaged (" + e.message + ")");
    }
    if (loaded.width() != width_) bad("its trees are for another number of columns");
    booster_ = std::move(loaded);
    base_ = std::move(bytes);
    fitted_ = 0;
    if (!throughputs_.empty()) fit();
  }

 private:
  void check_width(const Features& f) const {
    if (f.size() == width_) return;
    throw_user_error("a row of features has " + std::to_string(f.size()) + " columns in place of " +
                         std::to_string(width_),
                     {}, "extract features with extract_features or schedule_features");
  }

  void fit() {
    size_t n = throughputs_.size();
    // Rows of a task are adjacent, as ranking objectives require.
    std::vector<size_t> order(n);
    for (size_t i = 0; i < n; ++i) order[i] = i;
    std::map<uint64_t, size_t> first;  // tasks in the order in which they came
    for (size_t i = 0; i < n; ++i) first.emplace(tasks_[i], i);
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return first.at(tasks_[a]) < first.at(tasks_[b]); });
    std::vector<float> values, labels, weights;
    values.reserve(rows_.size());
    std::vector<unsigned> groups;
    for (size_t i = 0; i < n; ++i) {
      size_t r = order[i];
      values.insert(values.end(), rows_.begin() + static_cast<std::ptrdiff_t>(r * width_),
                    rows_.begin() + static_cast<std::ptrdiff_t>((r + 1) * width_));
      double best = best_.at(tasks_[r]);
      auto label = static_cast<float>(best > 0 ? throughputs_[r] / best : 0);
      labels.push_back(label);
      // Fast rows have larger weights, because their order matters most.
      weights.push_back(0.1f + label);
      if (i == 0 || tasks_[r] != tasks_[order[i - 1]]) groups.push_back(0);
      groups.back() += 1;
    }
    bool ranks = options_.objective.starts_with("rank:");
    TrainingData data;
    data.rows = {values, width_};
    data.labels = labels;
    if (ranks) {
      data.groups = groups;
    } else {
      data.weights = weights;
    }
    Booster::Parameters parameters = {
        {"objective", options_.objective},
        {"tree_method", "hist"},
        {"max_depth", std::to_string(options_.max_depth)},
        {"eta", std::to_string(options_.eta)},
        {"min_child_weight", std::to_string(options_.min_child_weight)},
        {"colsample_bytree", std::to_string(options_.columns_share)},
        {"subsample", std::to_string(options_.rows_share)},
        {"max_bin", std::to_string(options_.bins)},
        {"seed", std::to_string(options_.seed % (uint64_t{1} << 31))},
    };
    booster_ = Booster::fit(data, parameters, options_.rounds, base_, options_.threads);
    fitted_ = n;
  }

  XgboostOptions options_;
  size_t width_;
  std::vector<float> rows_;
  std::vector<double> throughputs_;
  std::vector<uint64_t> tasks_;
  std::map<uint64_t, double> best_;  ///< throughput of each task
  size_t fitted_ = 0;                ///< number of rows at the last fit
  std::string base_;                 ///< trees that were loaded; further ones are added to them
  Booster booster_;
};

}  // namespace

std::unique_ptr<CostModel> make_xgboost_model(const XgboostOptions& options) {
  return std::make_unique<XgboostModel>(options);
}

}  // namespace heddle
