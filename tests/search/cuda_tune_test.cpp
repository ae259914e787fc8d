// Tuning for CUDA from end to end, on the emulator.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>
#include <set>

#include "heddle/cost_model/features.h"
#include "heddle/records/record_log.h"
#include "heddle/search/tune.h"
#include "measure/cuda_testing.h"

namespace heddle::testing {
namespace {

using ::testing::HasSubstr;

class CudaTune : public ::testing::Test {
 protected:
  void SetUp() override {
    log_ = ::testing::TempDir() + "cuda_tune_" + std::to_string(::getpid()) + ".jsonl";
    std::remove(log_.c_str());
  }
  void TearDown() override { std::remove(log_.c_str()); }

  TuneReport run(Measurer& measurer, int trials) {
    TuneOptions options;
    options.target = an_h200();
    options.measurer = &measurer;
    options.max_trials = trials;
    options.batch = 4;
    options.budget = std::chrono::seconds(60);
    options.log = log_;
    options.warm_start = false;
    return tune_tasks({task_}, options);
  }

  std::string log_;
  TuneTask task_ = gpu_matmul();
};

TEST_F(CudaTune, FindsRecordsResumesAndIsFoundAgain) {
  HEDDLE_SKIP_WITHOUT_NVRTC();
  {
    const auto measurer = emulated_measurer();
    const TuneReport report = run(*measurer, 10);
    const TaskResult& r = report.tasks.at(0);
    EXPECT_EQ(report.problems, std::vector<std::string>{});
    EXPECT_EQ(report.trials, 10);
    EXPECT_GT(r.static_seconds, 0);
    EXPECT_LE(r.best_seconds, r.static_seconds);
    EXPECT_DOUBLE_EQ(r.best_seconds, made_up_seconds(r.schedule.to_json()));
  }
  int measured = 0;
  std::set<uint64_t> keys;
  std::ifstream file(log_);
  for (std::string line; std::getline(file, line);) {
    const Record record = Record::from_json(Json::parse(line));
    EXPECT_TRUE(record.target.is_cuda());
    EXPECT_EQ(record.target, an_h200());
    if (record.raced()) continue;
    ++measured;
    EXPECT_TRUE(keys.insert(hash_string(record.steps.dump())).second) << "measured twice";
  }
  EXPECT_EQ(measured, 10);

  const auto measurer = emulated_measurer();
  const TuneReport again = run(*measurer, 4);
  EXPECT_EQ(again.trials, 4);
  EXPECT_LE(again.tasks[0].best_seconds, again.tasks[0].static_seconds);

  AutoSchedulerOptions options;
  options.record_log = log_;
  const AutoSchedulerOptionsScope scope(options);
  const Schedule found = create_schedule(task_.tmpl.dag().outputs(), an_h200());
  EXPECT_THAT(found.provenance, HasSubstr("record"));
  EXPECT_DOUBLE_EQ(made_up_seconds(found.to_json()), again.tasks[0].best_seconds);
  // Of another GPU it says nothing.
  const Schedule other =
      create_schedule(task_.tmpl.dag().outputs(), Target::parse("cuda -gpu=a100"));
  EXPECT_THAT(other.provenance, HasSubstr("analytic rule"));
}

// Rejected candidates are no failures; they are counted by reason, recorded, and not tried again.
TEST(CudaTuneCounts, RejectionsByReason) {
  class Rejecting : public Measurer {
   public:
    void measure(const TuneTask&, std::span<const Schedule> schedules, double, const TuneClock&,
                 const std::function<void(size_t, const MeasureResult&)>& done) override {
      for (size_t i = 0; i < schedules.size(); ++i) {
        MeasureResult r;
        if (first_) {
          r.seconds = {1e-3};
        } else {
          r.error = MeasureError::Rejected;
          r.message = "spills: " + std::to_string(i) + " bytes stored in kernel 'k'";
        }
        first_ = false;
        done(i, r);
      }
    }
    std::vector<MeasureResult> race(const TuneTask&, std::span<const Schedule> s, double,
                                    const TuneClock&) override {
      return std::vector<MeasureResult>(s.size());
    }
    std::string protocol() const override { return "cold graph fake"; }

   private:
    bool first_ = true;
  };
  Rejecting measurer;
  TuneOptions options;
  options.target = an_h200();
  options.measurer = &measurer;
  options.max_trials = 9;
  options.batch = 4;
  options.warm_start = false;
  const TaskResult r = tune_tasks({gpu_matmul()}, options).tasks.at(0);
  EXPECT_EQ(r.failures, 0);
  EXPECT_EQ(r.trials, 9);
  int spills = 0;
  for (const RejectionCount& c : r.rejections) spills += c.reason == "spills" ? c.count : 0;
  EXPECT_EQ(spills, 8);
}

}  // namespace
}  // namespace heddle::testing
