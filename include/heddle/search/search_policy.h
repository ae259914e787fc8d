// SearchPolicy: proposes the configs of a task's template to measure next.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "heddle/cost_model/cost_model.h"
#include "heddle/measure/measure.h"
#include "heddle/schedule/template.h"
#include "heddle/support/rng.h"

namespace heddle {

/// A config that was measured.
struct Trial {
  Config config;
  double seconds = 0;  ///< median; infinity for a failure
};

/// Why candidates were refused before anything was compiled, and how often.
struct RejectionCount {
  std::string reason;
  int count = 0;
};

/// A strategy that proposes configs of one task.
class SearchPolicy {
 public:
  virtual ~SearchPolicy() = default;
  virtual std::string name() const = 0;
  /// Proposes at most `count` legal configs that were not proposed before. There are fewer, and at
  /// last none, when the space is exhausted. Deterministic for a seed and a history of `report`
  /// calls.
  virtual std::vector<Config> propose(int count) = 0;
  virtual void report(std::span<const Trial> trials) = 0;
  virtual std::vector<RejectionCount> rejections() const { return {}; }
};

/// Computes the features of a candidate for the cost model.
using FeatureFunction = std::function<Features(const TuneTask& task, const Schedule& schedule)>;

/// Options of evolutionary search. The effort of a round is counted and not timed: it scores about
/// population x (generations + 1) candidates. Proposals therefore depend only on the seed and the
/// measurements.
struct EvolutionOptions {
  int population = 128;
  int generations = 3;
  double mutation_probability = 0.85;              ///< else crossover of two parents
  double epsilon_begin = 0.3, epsilon_end = 0.05;  ///< share of unexplored random samples, annealed
  int epsilon_trials = 120;                        ///< trials over which it is annealed
  int elites = 64;                                 ///< measured configs that seed each round
};

/// The inputs of a policy. `seeds` (the static choice first, then tophub neighbours and earlier
/// records) are proposed first.
struct SearchContext {
  const TuneTask* task = nullptr;
  std::vector<Config> seeds = {};
  CostModel* model = nullptr;  ///< shared by all tasks; may be null (random)
  uint64_t seed = 0;
  /// Called by one thread at a time. Default: schedule_features, which several threads call.
  FeatureFunction features = {};
};
using SearchPolicyFactory = std::function<std::unique_ptr<SearchPolicy>(const SearchContext&)>;

/// Proposes the seeds, and then random configs.
std::unique_ptr<SearchPolicy> make_random_policy(const SearchContext& context);
/// Proposes the best configs by the model among populations of mutations (after Ansor, Zheng et al.
/// 2020, arXiv:2006.06762).
std::unique_ptr<SearchPolicy> make_evolutionary_policy(const SearchContext& context,
                                                       const EvolutionOptions& options = {});

}  // namespace heddle
