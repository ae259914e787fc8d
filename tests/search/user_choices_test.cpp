// A graph of the caller beside those of the rules: accepted signatures, the check, tuning, and
// records.
#include <filesystem>

#include "heddle/driver/build.h"
#include "heddle/records/record_log.h"
#include "search/search_testing.h"

namespace heddle::testing {
namespace {

constexpr int64_t kRows = 24, kCols = 40;

const Tensor& input() {
  static const Tensor x = placeholder({kRows, kCols}, f32, "x");
  return x;
}

/// 2 x + 2, then its positive part: a producer and an epilogue.
Tensor declared() {
  const Tensor y =
      compute({kRows, kCols}, [&](Axis i, Axis j) { return input()(i, j) * 2.f + 2.f; });
  return ops::relu(y);
}
/// The same as (x + by) * 2 of `x`.
ComputeDag other(const Tensor& x = input(), float by = 1, int64_t rows = kRows) {
  return ComputeDag({compute(
      {rows, kCols}, [&](Axis i, Axis j) { return max((x(i, j) + by) * 2.f, Expr(0.f)); })});
}

std::string message_of(const UserChoice& choice, AutoSchedulerOptions scheduler = {}) {
  FakeMeasurer m([](const TuneTask&, const Schedule&) { return seconds_of(1e-3); });
  try {
    tune({declared()}, {.max_trials = 2,
                        .target = test_target(),
                        .scheduler = scheduler,
                        .choices = {choice},
                        .warm_start = false,
                        .measurer = &m});
  } catch (const Error& e) {
    return e.message;
  }
  return "";
}

TEST(UserChoices, WhatDoesNotFitIsRefusedWithWords) {
  EXPECT_EQ(message_of({"same", other()}), "");
  EXPECT_EQ(message_of({"own-input", other(placeholder({kRows, kCols}, f32, "z"))}), "");
  EXPECT_NE(message_of({"a b", other()}).find("the name 'a b'"), std::string::npos);
  EXPECT_NE(message_of({"short", other(input(), 1, 8)}).find("f32[8, 40], not f32[24, 40]"),
            std::string::npos)
      << message_of({"short", other(input(), 1, 8)});
  EXPECT_NE(message_of({"wide", other(placeholder({kRows, kCols + 1}, f32, "z"))})
                .find("input 0 ('z') is f32[24, 41], where 'x' is f32[24, 40]"),
            std::string::npos);
  EXPECT_NE(message_of({"fixed", other(constant_placeholder({kRows, kCols}, f32, "z"))})
                .find("is constant"),
            std::string::npos);
  const ComputeDag two({declared(), declared()});
  EXPECT_NE(message_of({"two", two}).find("2 outputs, not 1"), std::string::npos);
  EXPECT_NE(message_of({"sharp", other(), 0.5}).find("error growth"), std::string::npos);
}

TEST(UserChoices, ResultsAreCheckedWithTheDeclaredBound) {
  const std::string wrong = message_of({"wrong", other(input(), 1.5f)});
  EXPECT_NE(wrong.find("the choice 'wrong' does not compute output"), std::string::npos) << wrong;
  const UserChoice near{"near", other(input(), 1.001f), 15};
  EXPECT_NE(message_of(near), "") << "errors beyond the bound";
  const UserChoice loose{"near", other(input(), 1.001f), 1000, Numerics::Approximate};
  EXPECT_NE(message_of(loose).find("allow_approximate"), std::string::npos);
  EXPECT_EQ(message_of(loose, {.max_error_growth = 1000, .allow_approximate = true}), "");
}

TEST(UserChoices, AreForOneTask) {
  FakeMeasurer m([](const TuneTask&, const Schedule&) { return seconds_of(1e-3); });
  EXPECT_THROW(
      tune_tasks({matmul_task(), softmax_task()}, {.choices = {{"same", other()}}, .measurer = &m}),
      Error);
  EXPECT_THROW(tune({declared()}, {.target = test_target(),
                                   .choices = {{"same", other()}, {"same", other()}},
                                   .measurer = &m}),
               Error)
      << "two of one name";
}

// The faster graph wins, its name is in the log, and the second run knows what was measured of it.
TEST(UserChoices, AreTunedAndRecordedByName) {
  const std::string log =
      (std::filesystem::temp_directory_path() / "heddle_user_choices_test.jsonl").string();
  std::filesystem::remove(log);
  const Tensor y = declared();
  FakeMeasurer m([](const TuneTask&, const Schedule& s) {
    return seconds_of(s.dag().alternative() == "user(sums)" ? 1e-4 : 1e-3);
  });
  TuneOptions o{.max_trials = 12,
                .log = log,
                .target = test_target(),
                .choices = {{"sums", other(placeholder({kRows, kCols}, f32, "z"))}},
                .warm_start = false,
                .measurer = &m};
  const TuneResult best = tune({y}, o);
  EXPECT_TRUE(best.improved);
  EXPECT_EQ(best.schedule.dag().alternative(), "user(sums)");
  ASSERT_EQ(best.alternatives.size(), 2U);
  EXPECT_EQ(best.alternatives[0].name, "");
  EXPECT_EQ(best.alternatives[1].name, "user(sums)");
  EXPECT_EQ(best.alternatives[1].numerics, Numerics::Reassociated);
  EXPECT_GT(best.alternatives[1].trials, 0);
  EXPECT_LT(best.alternatives[1].best_seconds, best.alternatives[0].best_seconds);
  EXPECT_FALSE(best.alternatives[1].config.is_null());
  int named = 0;
  for (const Record& r : read_records(log).records) named += r.alternative == "user(sums)";
  EXPECT_GT(named, 0);

  // Called with the arguments of the declaration.
  std::vector<NDArray> arrays{NDArray::full({kRows, kCols}, f32, 3),
                              NDArray::zeros({kRows, kCols}, f32)};
  build(best.schedule.for_target(Target::host()), {input(), y}).call(arrays);
  EXPECT_EQ(arrays[1].get(7), 8);

  FakeMeasurer again([](const TuneTask&, const Schedule&) { return seconds_of(1e-3); });
  o.measurer = &again;
  tune({y}, o);
  for (uint64_t key : again.keys) EXPECT_FALSE(m.keys.contains(key)) << "measured twice";

  // Without the graph its records do not apply, and are no obstacle.
  FakeMeasurer without([](const TuneTask&, const Schedule&) { return seconds_of(1e-3); });
  o.choices.clear();
  o.measurer = &without;
  EXPECT_EQ(tune({y}, o).schedule.dag().alternative(), "");
  std::filesystem::remove(log);
}

}  // namespace
}  // namespace heddle::testing
