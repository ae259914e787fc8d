// CandidatePool: the candidates of one round with the scores of the cost model, and the selection
// among them.
#pragma once

#include <unordered_map>
#include <vector>

#include "search/candidate_book.h"

namespace heddle::search {

struct Scored {
  Config config;
  uint64_t key = 0;
  double score = 0;
};
inline bool better(const Scored& a, const Scored& b) {
  return a.score != b.score ? a.score > b.score : a.key < b.key;
}

class CandidatePool {
 public:
  /// The task and the book must outlive the pool; `model` may be null.
  CandidatePool(const TuneTask& task, CostModel* model, FeatureFunction features,
                CandidateBook& book);

  bool can_rank() const { return model_ && model_->ready(); }
  /// Removes the candidates of the previous round, but keeps their features.
  void begin_round();
  /// Adds the legal candidates that are not taken and are new to the round, with their scores, and
  /// returns them.
  std::vector<Scored> score(const std::vector<Config>& configs);
  /// Takes up to `count` of the best candidates. At most two of them may differ in one knob from
  /// one that is already selected, unless there are no others: the model learns little from a batch
  /// of variants of one config.
  std::vector<Config> take_best(int count);

 private:
  /// Enters the configs that are new to the book, and extracts their features, on several threads.
  void prepare(const std::vector<Config>& configs);
  const Features* features_of(const Config& config, uint64_t key, std::optional<Schedule> made);

  const TuneTask& task_;
  CostModel* model_;
  FeatureFunction extract_;
  bool shared_;  ///< extract_ may be called by several threads at once
  CandidateBook& book_;
  uint64_t task_hash_;
  std::unordered_map<uint64_t, Features>
      features_;  ///< features by key; empty where they could not be extracted
  std::vector<Scored> round_;
  std::unordered_set<uint64_t> in_round_;
};

}  // namespace heddle::search
