// Tuning that ends when what was found is probably near to what more of it would find.
#include <gtest/gtest.h>

#include <string>

#include "environment.h"
#include "heddle/records/tophub.h"
#include "heuristics/certify/certificates_file.h"
#include "heuristics/one_share.h"
#include "search/tune_testing.h"

namespace heddle::testing {
namespace {

/// Each candidate takes 0.97 of the time of the one before, for so many trials; later ones take as long as the first.
FakeMeasurer::Function gains_for(int trials) {
  return [trials, n = 0](const TuneTask&, const Schedule&) mutable {
    return seconds_of(n++ < trials ? 1e-3 * std::pow(0.97, n) : 1e-3);
  };
}

class Until : public Tune {
 protected:
  TuneOptions until(FakeMeasurer& m, double share, int max_trials = 2000) {
    TuneOptions o = options(m, max_trials);
    o.patience = 0;
    o.until = share;
    return o;
  }
};

TEST_F(Until, EndsWhenItIsProbablyNearEnough) {
  FakeMeasurer m(gains_for(0));
  const TuneReport report = tune_tasks({matmul_task()}, until(m, 0.05));
  EXPECT_EQ(report.ended, TuneEnd::Near);
  EXPECT_LT(report.trials, 300);
  EXPECT_GE(report.tasks[0].near, 0.8);
  EXPECT_EQ(report.within, 0.05);
  EXPECT_GT(report.another_minute, 0);
  EXPECT_LT(report.another_minute, 0.03);
}

TEST_F(Until, GoesOnWhileItGains) {
  FakeMeasurer m(gains_for(200));
  const TuneReport report = tune_tasks({matmul_task()}, until(m, 0.05));
  EXPECT_EQ(report.ended, TuneEnd::Near);
  EXPECT_GT(report.trials, 220);
}

TEST_F(Until, AsksForMoreTrialsWithinASmallerShare) {
  FakeMeasurer small(gains_for(0)), large(gains_for(0));
  EXPECT_GT(tune_tasks({matmul_task()}, until(small, 0.01)).trials,
            tune_tasks({matmul_task()}, until(large, 0.2)).trials);
}

TEST_F(Until, TheBudgetStillEndsIt) {
  FakeMeasurer m(gains_for(1000));
  const TuneReport report = tune_tasks({matmul_task()}, until(m, 0.05, 50));
  EXPECT_EQ(report.ended, TuneEnd::Trials);
  EXPECT_LT(report.tasks[0].near, 0.8);
}

TEST_F(Until, GoesOnFromTheTrialsOfALog) {
  FakeMeasurer first(gains_for(0)), second(gains_for(0));
  TuneOptions o = until(first, 0.05);
  o.log = path("log.jsonl");
  const int trials = tune_tasks({matmul_task()}, o).trials;
  o.measurer = &second;
  const TuneReport again = tune_tasks({matmul_task()}, o);
  EXPECT_EQ(again.ended, TuneEnd::Near);
  EXPECT_EQ(again.trials, 0);
  EXPECT_GT(trials, 0);
}

TEST_F(Until, WithoutTheOptionTheReportIsAboutFivePercent) {
  FakeMeasurer m(gains_for(0));
  const TuneReport report = tune_tasks({matmul_task()}, options(m, 60));
  EXPECT_EQ(report.ended, TuneEnd::Trials);
  EXPECT_EQ(report.within, 0.05);
  EXPECT_GT(report.tasks[0].near, 0);
}

TEST_F(Until, AnExhaustedSpaceIsCertain) {
  FakeMeasurer m(gains_for(0));
  const TuneReport report = tune_tasks({splits_task()}, until(m, 0.001));
  EXPECT_EQ(report.ended, TuneEnd::Converged);
  EXPECT_EQ(report.tasks[0].near, 1);
  EXPECT_EQ(report.another_minute, 0);
}

TEST_F(Until, ACertifiedChoiceIsNotSearched) {
  const Variable learned("HEDDLE_LEARNED", folder_.string());
  const auto trials = [&](double share) {
    std::vector<learning::ShareTree> classes;
    for (const char* name : {"alternative", "reduction", "location"})
      classes.push_back(one_share(name, share, 2));
    learning::write_certificates(path("llvm-" + test_target().chip() + ".certificates"),
                                 {.kind = "llvm", .classes = std::move(classes)});
    reload_tophub();
    FakeMeasurer m(gains_for(0));
    return tune_tasks({softmax_task()}, until(m, 0.05)).trials;
  };
  EXPECT_EQ(trials(0.999), 1);  // the static choice
  EXPECT_GT(trials(0.5), 30);
}

TEST_F(Until, IsAShare) {
  FakeMeasurer m(gains_for(0));
  for (const double share : {-0.1, 1.0, 5.0}) {
    try {
      tune_tasks({matmul_task()}, until(m, share));
      ADD_FAILURE() << share;
    } catch (const Error& e) {
      EXPECT_EQ(e.kind, ErrorKind::User);
      EXPECT_NE(e.message.find("until"), std::string::npos);
    }
  }
}

}  // namespace
}  // namespace heddle::testing
