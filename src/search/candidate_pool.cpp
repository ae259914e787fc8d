#include "search/candidate_pool.h"

#include <algorithm>

#include "heddle/support/error.h"
#include "runtime/pool/for_each_task.h"

namespace heddle::search {
namespace {

constexpr size_t kFeaturesKept = 30'000;  // about 30 MB

int knobs_that_differ(const Config& a, const Config& b) {
  int n = 0;
  for (size_t i = 0; i < a.values.size(); ++i) n += a.values[i] != b.values[i];
  return n;
}

}  // namespace

CandidatePool::CandidatePool(const TuneTask& task, CostModel* model, FeatureFunction features,
                             CandidateBook& book)
    : task_(task),
      model_(model),
      extract_(std::move(features)),
      shared_(!extract_),
      book_(book),
      task_hash_(task.hash()) {
  if (!extract_) {
    extract_ = [](const TuneTask& t, const Schedule& s) { return schedule_features(s, t.args); };
  }
}

void CandidatePool::begin_round() {
  round_.clear();
  in_round_.clear();
  if (features_.size() > kFeaturesKept) features_.clear();
}

const Features* CandidatePool::features_of(const Config& config, uint64_t key,
                                           std::optional<Schedule> made) {
  auto [at, is_new] = features_.try_emplace(key);
  if (is_new) {
    try {
      at->second = extract_(task_, made ? *made : task_.tmpl.instantiate(config));
    } catch (const Error&) {
      // The schedule cannot be lowered. It stays without features and is never picked.
    }
  }
  return at->second.empty() ? nullptr : &at->second;
}

void CandidatePool::prepare(const std::vector<Config>& configs) {
  struct New {
    const Config* config;
    CandidateBook::Judged judged;
    Features features;
  };
  std::vector<New> made;
  for (const Config& c : configs) {
    if (!book_.knows(c)) made.push_back({&c, {}, {}});
  }
  for_each_task(made.size(), [&](size_t i) {
    New& n = made[i];
    n.judged = book_.judge(*n.config);
    if (!n.judged.made || features_.contains(n.judged.key) || book_.taken(n.judged.key)) return;
    try {
      n.features = extract_(task_, *n.judged.made);
    } catch (const Error&) {
      // The schedule cannot be lowered. It stays without features and is never picked.
    }
    n.judged.made.reset();
  });
  for (New& n : made) {
    const std::optional<uint64_t> key = book_.enter(*n.config, n.judged);
    if (key && !book_.taken(*key)) features_.try_emplace(*key, std::move(n.features));
  }
}

std::vector<Scored> CandidatePool::score(const std::vector<Config>& configs) {
  if (shared_) prepare(configs);
  std::vector<Scored> out;
  std::vector<Features> rows;
  for (const Config& c : configs) {
    std::optional<Schedule> made;
    std::optional<uint64_t> key = book_.key_of(c, &made);
    if (!key || book_.taken(*key) || !in_round_.insert(*key).second) continue;
    if (const Features* f = features_of(c, *key, std::move(made))) {
      out.push_back({c, *key, 0});
      rows.push_back(*f);
    }
  }
  if (rows.empty()) return out;
  std::vector<double> scores = model_->predict(task_hash_, rows);
  HEDDLE_ICHECK(scores.size() == rows.size(), "cost model '" + model_->name() + "' gave " +
                                                  std::to_string(scores.size()) + " scores for " +
                                                  std::to_string(rows.size()) + " candidates");
  for (size_t i = 0; i < out.size(); ++i) out[i].score = scores[i];
  round_.insert(round_.end(), out.begin(), out.end());
  return out;
}

std::vector<Config> CandidatePool::take_best(int count) {
  std::sort(round_.begin(), round_.end(), better);
  std::vector<Config> out;
  for (int most_alike : {2, count}) {
    for (const Scored& s : round_) {
      if (static_cast<int>(out.size()) >= count) return out;
      if (book_.taken(s.key)) continue;
      auto alike = std::count_if(out.begin(), out.end(), [&](const Config& c) {
        return knobs_that_differ(c, s.config) <= 1;
      });
      if (alike >= most_alike || !book_.take(s.key)) continue;
      out.push_back(s.config);
    }
  }
  return out;
}

}  // namespace heddle::search
