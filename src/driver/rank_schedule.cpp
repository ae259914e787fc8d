#include "driver/rank_schedule.h"

#include <algorithm>
#include <mutex>
#include <set>

#include "heddle/cost_model/features.h"
#include "heddle/records/tophub.h"
#include "heddle/support/error.h"
#include "heddle/support/log.h"
#include "schedule/config_moves.h"

namespace heddle {
namespace {

// The largest number of configs that are ranked. This takes about 50 ms for a matrix product.
constexpr int kMostRanked = 160;
constexpr int kMostSteps = 4;
// The least predicted throughput, relative to the default's, for which another config is taken.
constexpr double kBelievedGain = 1.1;

std::vector<Tensor> args_of(const ComputeDag& dag) {
  std::vector<Tensor> args = dag.placeholders();
  args.insert(args.end(), dag.outputs().begin(), dag.outputs().end());
  return args;
}

/// The features of a config; empty where it cannot be lowered.
Features features_of(const Template& t, const Config& config) {
  try {
    const Schedule s = t.instantiate(config);
    return schedule_features(s, args_of(s.dag()));
  } catch (const Error&) {
    return {};
  }
}

struct Ranked {
  Config config;
  double score = 0;
};

class Ascent {
 public:
  Ascent(const Template& t, CostModel& model)
      : template_(t), moves_(t), model_(model), task_(t.dag().structural_hash()) {}

  /// The best of the new configs among `configs`. Among equals the first.
  std::optional<Ranked> best_of(const std::vector<Config>& configs) {
    std::vector<Config> fresh;
    std::vector<Features> rows;
    for (const Config& c : configs) {
      if (ranked_ + static_cast<int>(rows.size()) >= kMostRanked) break;
      if (!seen_.insert(c.values).second || !template_.why_invalid(c).empty()) continue;
      Features f = features_of(template_, c);
      if (f.empty()) continue;
      fresh.push_back(c);
      rows.push_back(std::move(f));
    }
    if (rows.empty()) return std::nullopt;
    ranked_ += static_cast<int>(rows.size());
    const std::vector<double> scores = model_.predict(task_, rows);
    const auto at = std::max_element(scores.begin(), scores.end()) - scores.begin();
    return Ranked{fresh[static_cast<size_t>(at)], scores[static_cast<size_t>(at)]};
  }
  std::vector<Config> around(const Config& c) const { return moves_.neighbours(c); }
  int ranked() const { return ranked_; }

 private:
  const Template& template_;
  ConfigMoves moves_;
  CostModel& model_;
  uint64_t task_;
  std::set<std::vector<int64_t>> seen_;
  int ranked_ = 0;
};

/// The model of a file, loaded once per process. Its calls are made one at a time.
struct LoadedModel {
  std::mutex mutex;
  std::string path, version;
  std::unique_ptr<CostModel> model;
};

// It is never destroyed: XGBoost's own thread-local caches, which a booster refers to, are gone
// when static objects are destroyed.
LoadedModel& loaded() {
  static LoadedModel& one = *new LoadedModel;
  return one;
}

Schedule with_note(const Template& t, const std::string& note) {
  Schedule s = t.static_schedule();
  s.provenance += "; " + note;
  return s;
}

}  // namespace

RankedConfig best_ranked(const Template& t, CostModel& model) {
  Ascent ascent(t, model);
  const std::optional<Ranked> start = ascent.best_of({t.default_config()});
  if (!start) return {t.default_config()};
  Ranked best = *start;
  for (int step = 0; step < kMostSteps; ++step) {
    const std::optional<Ranked> next = ascent.best_of(ascent.around(best.config));
    if (!next || next->score <= best.score) break;
    best = *next;
  }
  if (best.score <= start->score * kBelievedGain) best = *start;
  return {best.config, best.score, start->score, ascent.ranked()};
}

Schedule ranked_schedule(const Template& t) {
  const std::optional<std::string> path = tophub_model(t.target());
  if (!path) return with_note(t, "no cost model is shipped for " + t.target().chip());
  LoadedModel& known = loaded();
  const std::lock_guard lock(known.mutex);
  const std::string version = tophub_version();
  if (!known.model || known.path != *path || known.version != version) {
    known.model = make_xgboost_model({.target_kind = t.target().kind});
    known.path.clear();  // the model cannot be loaded
    known.model->load(*path);
    known.path = *path;
    known.version = version;
  }
  const RankedConfig found = best_ranked(t, *known.model);
  if (found.config == t.default_config())
    return with_note(t, "the cost model ranks none of " + std::to_string(found.ranked) +
                            " configs clearly above it");
  Schedule s = t.instantiate(found.config);
  s.provenance = "cost model " + path->substr(path->rfind('/') + 1) + ", the best of " +
                 std::to_string(found.ranked) + " configs";
  return s;
}

}  // namespace heddle
