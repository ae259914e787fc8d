// The reports during and after tuning.
#include "heddle/search/print.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

namespace heddle {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TuneProgress at(double seconds, double best, const std::string& phase = "measure") {
  TuneProgress p;
  p.tasks.resize(2);
  p.tasks[0].name = "dense";
  p.tasks[1].name = "softmax";
  p.active = 1;
  p.phase = phase;
  p.trials = 12;
  p.trials_per_second = 3;
  p.elapsed_seconds = seconds;
  p.left_seconds = 100 - seconds;
  p.static_seconds = 2e-3;
  p.best_seconds = best;
  return p;
}

TEST(PrintProgress, HasALineAtANewBestAndEveryTenSeconds) {
  std::ostringstream out;
  const auto show = print_progress(out);
  show(at(1, 2e-3));
  EXPECT_THAT(out.str(), HasSubstr("12 trials, 3.0/s"));
  EXPECT_THAT(out.str(), HasSubstr("static 2.00 ms, best 2.00 ms (1.00x)"));
  EXPECT_THAT(out.str(), HasSubstr("measure: softmax"));
  EXPECT_THAT(out.str(), HasSubstr("1:39 left"));
  out.str("");
  show(at(2, 2e-3));
  show(at(9, 1.999e-3));
  EXPECT_EQ(out.str(), "");
  show(at(10, 1e-3));
  EXPECT_THAT(out.str(), HasSubstr("best 1.00 ms (2.00x)"));
  out.str("");
  show(at(21, 1e-3));
  EXPECT_THAT(out.str(), HasSubstr("21 s"));
  out.str("");
  show(at(22, 1e-3, "done"));
  EXPECT_THAT(out.str(), HasSubstr("done"));
}

TEST(PrintProgress, SaysNothingOfATimeLeftThatHasNoEnd) {
  std::ostringstream out;
  TuneProgress p = at(1, 1e-3);
  p.left_seconds = std::numeric_limits<double>::infinity();
  print_progress(out)(p);
  EXPECT_THAT(out.str(), Not(HasSubstr("left")));
}

TaskResult result(double best, bool improved) {
  const Tensor x = placeholder({4}), y = compute({4}, [&](Axis i) { return x(i) * 2; });
  TaskResult r{.name = "dense", .config = {}, .schedule = Schedule({y})};
  r.static_seconds = 2e-3;
  r.best_seconds = best;
  r.trials = 20;
  r.failures = 1;
  r.improved = improved;
  return r;
}

TEST(PrintReport, HasARowATaskAndWhatWentWrong) {
  TuneReport report;
  report.tasks = {result(1e-3, true), result(2e-3, false)};
  report.trials = 40;
  report.elapsed_seconds = 61;
  report.ended = TuneEnd::Budget;
  report.log = "dense.jsonl";
  report.problems = {"a record could not be written"};
  std::ostringstream out;
  out << report;
  EXPECT_THAT(out.str(), HasSubstr("1.00 ms     2.00x"));
  EXPECT_THAT(out.str(), HasSubstr("40 trials in 1:01, ended by: budget; records in dense.jsonl"));
  EXPECT_THAT(out.str(), HasSubstr("problem: a record could not be written"));
}

TEST(PrintReport, OfOneDeclarationSaysWhetherItImproved) {
  TuneResult tuned{result(1e-3, true), {}}, not_tuned{result(2e-3, false), {}};
  std::ostringstream out;
  out << tuned << not_tuned;
  EXPECT_THAT(out.str(),
              HasSubstr("dense: 1.00 ms, 2.00x as fast as the static choice (2.00 ms); 20 trials, "
                        "1 failed"));
  EXPECT_THAT(out.str(), HasSubstr("dense: the static choice, 2.00 ms; 20 trials"));
}

}  // namespace
}  // namespace heddle
