// Concurrent runs of search policies on one subject, and the race of their results.
#pragma once

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "heddle/records/record_log.h"
#include "heddle/search/tune.h"
#include "heddle/support/json.h"

namespace heddle::bench {

struct CompareOptions {
  std::string subject;
  int threads = 1, seeds = 3, batch = 32, random_trials = 500, model_trials = 150;
  double seconds = 600, race_seconds = 6;
  bool warm_start = false;
  std::string log, json;
};

/// One run of one policy.
struct Search {
  struct Step {
    Config config;
    uint64_t key = 0;    ///< steps_hash
    double seconds = 0;  ///< by screening
  };
  std::string name;
  uint64_t seed = 0;
  int most = 0;  ///< trials
  std::unique_ptr<CostModel> model;
  std::unique_ptr<SearchPolicy> policy;
  std::vector<Step> steps;
  int rounds = 0;
  bool over = false;

  /// The best of the first `count` steps, fastest first.
  std::vector<Step> leaders(int count) const;
};

class Comparison {
 public:
  explicit Comparison(const CompareOptions& options);
  /// Returns false when the time was up before all runs had their trials.
  bool run();
  void race();
  Json result() const;

 private:
  using Batch = std::pair<Search*, std::vector<Config>>;

  void add(const std::string& name, uint64_t seed, int trials, bool warm);
  uint64_t key_of(const Config& config) const;
  std::vector<Config> propose(Search& search);
  bool measure(const std::vector<Batch>& batches);
  void take(uint64_t key, double seconds);
  void read_log();
  void report(Search& search, const std::vector<Config>& configs);
  enum class With { Static, Nothing };
  double raced_best(const Search& search, int trials, With with = With::Static) const;
  double mean(const std::string& name, int trials, With with = With::Static) const;
  int reaches(const Search& search) const;
  Json summary(const std::string& name) const;

  CompareOptions options_;
  TuneTask task_;
  TuneClock clock_;
  std::unique_ptr<Measurer> measurer_;
  std::unique_ptr<RecordLog> log_;
  std::vector<Search> searches_;
  std::map<uint64_t, double> times_, raced_;
  std::map<uint64_t, Features> features_;
  double best_ = std::numeric_limits<double>::infinity();
  size_t rounds_ = 0;
};

}  // namespace heddle::bench
