// The fixture of tests of the tune loop: runs end after a number of trials, and logs are in a
// temporary folder.
#pragma once

#include <unistd.h>

#include <filesystem>
#include <set>

#include "heddle/records/database.h"
#include "heddle/records/record_log.h"
#include "search/search_testing.h"

namespace heddle::testing {

class Tune : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ =
        std::filesystem::temp_directory_path() / ("heddle_tune_test_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  /// Ends by trials, not by time.
  TuneOptions options(FakeMeasurer& m, int max_trials = 64) {
    models_.push_back(std::make_unique<NearestModel>());
    TuneOptions o;
    o.budget = std::chrono::hours(1);
    o.max_trials = max_trials;
    o.batch = 16;
    o.warm_start = false;
    o.measurer = &m;
    o.model = models_.back().get();
    o.features = step_features;
    o.policy = [](const SearchContext& c) {
      return make_evolutionary_policy(c, {.population = 48, .generations = 2});
    };
    return o;
  }
  std::set<std::string> configs_in(const std::string& log, bool races = false) {
    std::set<std::string> out;
    for (const Record& r : read_records(log).records) {
      if (r.verdict == Verdict::Chosen) continue;
      if (r.raced() == races) out.insert(r.subject + r.config.dump());
    }
    return out;
  }

  std::filesystem::path folder_;
  std::vector<std::unique_ptr<NearestModel>> models_;
};

}  // namespace heddle::testing
