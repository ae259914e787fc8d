// CandidatePool: candidates of one round with the cost model's scores, and the pick among them.
#pragma once

#include <unordered_map>
#include <vector>

#include "search/candidate_book.h"

namespace heddle {

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
  /// Forgets the candidates of the round before, but not their features.
  void begin_round();
  /// Adds the legal, untaken ones that are new to the round, with their scores, and returns them.
  std::vector<Scored> score(const std::vector<Config>& configs);
  /// Takes up to `count` of the best in the book. No more than two that differ in one knob from
  /// one that is picked already, unless there is nothing else: a batch of variants of one config
  /// teaches the model little and stands or falls with it.
  std::vector<Config> take_best(int count);

 private:
  const Features* features_of(const Config& config, uint64_t key, std::optional<Schedule> made);

  const TuneTask& task_;
  CostModel* model_;
  FeatureFunction extract_;
  CandidateBook& book_;
  uint64_t task_hash_;
  std::unordered_map<uint64_t, Features> features_;  ///< by key; empty: they could not be had
  std::vector<Scored> round_;
  std::unordered_set<uint64_t> in_round_;
};

}  // namespace heddle
