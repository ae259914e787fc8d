// Learning: what is installed, what is not, and what a second run goes on from.
#include "heddle/heuristics/learn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <optional>

#include "environment.h"
#include "heddle/heuristics/tree_choices.h"
#include "heddle/support/error.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

const Target& target() {
  static const Target t = Target::parse("llvm -mcpu=znver3 -threads=2");
  return t;
}

/// Two algorithms of a program's own, on sizes from 1 to `sizes`: "a" takes seconds_of_a(n), "b",
/// the rule's, always 100.
Heuristic two_algorithms(double (*seconds_of_a)(double n), int sizes = 300) {
  Heuristic h;
  h.name = "two_algorithms";
  h.target_kind = "llvm";
  h.features = {{"n"}};
  h.parameters = {{"algorithm", {"a", "b"}}};
  h.fallback = ParameterSet().set("algorithm", 1);
  h.candidates = [](const Situation&) {
    return std::vector<ParameterSet>{ParameterSet().set("algorithm", 0)};
  };
  h.draw = [sizes](Rng& rng, const Target&) {
    const std::int64_t n = rng.uniform_int(1, sizes);
    return DrawnProblem{"n=" + std::to_string(n), {}, {{"n", double(n)}}};
  };
  h.measure = [seconds_of_a](const DrawnProblem& p, const ParameterSet& c) {
    return c.get("algorithm", 0) == 0 ? seconds_of_a(p.features[0].value) : 100.0;
  };
  return h;
}

double better_when_small(double n) { return n; }
/// Sizes say nothing about it: it is faster as often as slower.
double by_chance(double n) {
  return (static_cast<std::int64_t>(n) * 2654435761LL % 1024) < 512 ? 80.0 : 125.0;
}

class LearnTest : public ::testing::Test {
 protected:
  LearnTest() { std::filesystem::remove_all(folder_); }
  ~LearnTest() override {
    unregister_heuristic("two_algorithms");
    std::filesystem::remove_all(folder_);
  }

  LearnReport run(Heuristic h, LearnOptions options = {}, const Target& on = target()) {
    unregister_heuristic(h.name);
    register_heuristic(std::move(h));
    options.target = on;
    options.heuristics = {"two_algorithms"};
    return learn(options);
  }
  std::optional<ParameterSet> says(double n) {
    const auto tree = find_tree(heuristic_of("two_algorithms"), target());
    return tree == nullptr ? std::nullopt : tree->answer(NamedFeatures{{"n", n}}).choice;
  }

  const std::string folder_ =
      ::testing::TempDir() + "learn_test_" + std::to_string(::getpid()) + "/deep";
  const testing::Variable variable_{"HEDDLE_LEARNED", folder_};
};

TEST_F(LearnTest, ATreeThatGainsAnswersFromThenOn) {
  const LearnReport report = run(two_algorithms(better_when_small));
  ASSERT_EQ(report.lessons.size(), 1U);
  const Lesson& lesson = report.lessons[0];
  EXPECT_EQ(lesson.end, LessonEnd::Taken) << report.to_text();
  EXPECT_EQ(lesson.collected, 300);
  EXPECT_LT(lesson.tree_over_rule, 0.8);
  EXPECT_LE(lesson.tree_over_best, lesson.rule_over_best);
  ASSERT_TRUE(says(20).has_value());
  EXPECT_EQ(says(20)->get("algorithm", -1), 0);
  EXPECT_FALSE(says(250).has_value());

  const LearnReport shown = learned(target());
  ASSERT_EQ(shown.lessons.size(), 1U);
  EXPECT_EQ(shown.lessons[0].file, lesson.file);
  EXPECT_DOUBLE_EQ(shown.lessons[0].tree_over_rule, lesson.tree_over_rule);
}

TEST_F(LearnTest, ATreeThatIsNotProvenIsNotInstalled) {
  const LearnReport report = run(two_algorithms(by_chance));
  EXPECT_EQ(report.lessons.at(0).end, LessonEnd::NotProven) << report.to_text();
  EXPECT_FALSE(says(20).has_value());
}

TEST_F(LearnTest, ASecondRunGoesOnAndTakesBackWhatHoldsNoMore) {
  run(two_algorithms(better_when_small, 100));
  ASSERT_TRUE(says(20).has_value());
  // Larger sizes are as often slower: together nothing is proven.
  const auto mixed = [](double n) { return n <= 100 ? 500 - n : by_chance(n); };
  const std::string log = folder_ + "/llvm-znver3.two_algorithms-v1.2.measured";
  ASSERT_TRUE(std::filesystem::exists(log));
  std::filesystem::remove(log);
  const LearnReport second = run(two_algorithms(mixed, 300));
  EXPECT_EQ(second.lessons.at(0).end, LessonEnd::NotProven) << second.to_text();
  EXPECT_FALSE(says(20).has_value());

  const LearnReport third = run(two_algorithms(mixed, 300));
  EXPECT_EQ(third.lessons.at(0).collected, 0) << "all were measured before";
  EXPECT_EQ(third.lessons.at(0).problems, 300);
}

TEST_F(LearnTest, HeldOutProblemsSayHowSureChoicesAre) {
  // By chance "a" is faster for one half of the sizes, where the rule loses a fifth.
  const LearnReport report = run(two_algorithms(by_chance));
  ASSERT_EQ(report.certificates.classes.size(), 1U);
  const CertificateCalibration::Class& c = report.certificates.classes[0];
  EXPECT_EQ(c.heuristic, "two_algorithms");
  EXPECT_EQ(c.problems, 300);
  int within = 0;
  for (int n = 1; n <= 300; ++n) within += by_chance(n) > 100 ? 1 : 0;
  EXPECT_EQ(c.within, within);
  EXPECT_LT(report.certificates.error(), 0.15) << report.certificates.to_string();
  EXPECT_THAT(report.to_text(), HasSubstr("choices that were held out"));
  EXPECT_EQ(certificate_calibration(target()).to_json().dump(),
            report.certificates.to_json().dump());
  // A second run finds the same.
  const LearnReport second = run(two_algorithms(by_chance));
  EXPECT_EQ(second.certificates.to_json().dump(), report.certificates.to_json().dump());

  std::filesystem::path file = report.certificates.file;
  EXPECT_EQ(file.filename(), "llvm-znver3.certificates");
  write_file_atomic(file, R"({"heddle_certificates": 7})");
  EXPECT_THROW((void)certificate_calibration(target()), Error);
  run(two_algorithms(by_chance));
  EXPECT_EQ(certificate_calibration(target()).classes.size(), 1U) << "a broken file is replaced";
  forget_learned(target());
  EXPECT_TRUE(certificate_calibration(target()).file.empty());
}

TEST_F(LearnTest, TooFewProblemsTeachNothing) {
  const LearnReport report = run(two_algorithms(better_when_small, 5));
  EXPECT_EQ(report.lessons.at(0).end, LessonEnd::TooFew);
  EXPECT_THAT(report.to_text(), HasSubstr("too few problems: the rule stays"));
}

TEST_F(LearnTest, RunsWithSeedsOfTheirOwnShareAFolder) {
  run(two_algorithms(better_when_small, 20));
  LearnOptions second;
  second.seed = 2;
  const LearnReport report = run(two_algorithms(better_when_small, 300), second);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/llvm-znver3.two_algorithms-v1.2.measured"));
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/llvm-znver3.two_algorithms-v1.2.seed2.measured"));
  EXPECT_EQ(report.lessons.at(0).collected, 300) << "a log is of one seed";
  EXPECT_EQ(report.lessons.at(0).problems, 300) << "of those in both logs one counts";
  EXPECT_EQ(forget_learned(target()).size(), 4U);
}

TEST_F(LearnTest, ProblemsOfAnotherNumberOfThreadsAreOthers) {
  run(two_algorithms(better_when_small, 30));
  const LearnReport report =
      run(two_algorithms(better_when_small, 30), {}, Target::parse("llvm -mcpu=znver3 -threads=1"));
  EXPECT_EQ(report.lessons.at(0).problems, 60);
}

TEST_F(LearnTest, ALogOfOtherFeaturesIsSetAside) {
  run(two_algorithms(better_when_small, 30));
  Heuristic changed = two_algorithms(better_when_small, 40);
  changed.augmented = {{{"twice"}, [](const FeatureView& f) { return 2 * f["n"]; }}};
  const LearnReport report = run(changed);
  ASSERT_EQ(report.set_aside.size(), 1U);
  EXPECT_THAT(report.to_text(), HasSubstr("has the features of another version of Heddle"));
  EXPECT_EQ(report.lessons.at(0).problems, 40);
  EXPECT_TRUE(run(changed).set_aside.empty());
}

TEST_F(LearnTest, ATreeStaysWhereTooLittleIsKnownToJudgeIt) {
  run(two_algorithms(better_when_small));
  ASSERT_TRUE(std::filesystem::remove(folder_ + "/llvm-znver3.two_algorithms-v1.2.measured"));
  LearnOptions options;
  options.known = [](const Heuristic& h) {  // of another chip
    HeuristicData data;
    data.heuristic = h.name;
    data.version = std::to_string(h.version);
    data.machine = "znver2";
    data.features = h.all_features();
    data.choices = {R"({"algorithm":"a"})", R"({"algorithm":"b"})"};
    for (int i = 0; i < 60; ++i)
      data.problems.push_back({"n=" + std::to_string(i), {double(i)}, {1, 100}, 1, 0});
    return std::vector<HeuristicData>{data};
  };
  const LearnReport report = run(two_algorithms(better_when_small, 5), options);
  EXPECT_EQ(report.lessons.at(0).end, LessonEnd::TooFew);
  EXPECT_EQ(report.lessons.at(0).problems, 5);
  EXPECT_TRUE(says(20).has_value());
}

TEST_F(LearnTest, ConclusionsNeedNoMeasurements) {
  run(two_algorithms(better_when_small));
  const std::string file = folder_ + "/llvm-znver3.two_algorithms.tree";
  ASSERT_TRUE(std::filesystem::remove(file));
  LearnOptions options;
  options.measure = false;
  const LearnReport report = run(two_algorithms(nullptr), options);
  EXPECT_EQ(report.lessons.at(0).collected, 0);
  EXPECT_EQ(report.lessons.at(0).end, LessonEnd::Taken) << report.to_text();
  EXPECT_TRUE(std::filesystem::exists(file));
}

TEST_F(LearnTest, ProblemsThatDoNotCountLeaveTheOthers) {
  // Most problems have a feature that is not known. What is left is just enough.
  LearnOptions options;
  options.known = [](const Heuristic& h) {
    HeuristicData data;
    data.heuristic = h.name;
    data.version = std::to_string(h.version);
    data.features = h.all_features();
    data.choices = {R"({"algorithm":"a"})", R"({"algorithm":"b"})"};
    for (int i = 0; i < 60; ++i)
      data.problems.push_back({"unknown" + std::to_string(i), {kNotMeasured}, {1, 100}, 1, 0});
    return std::vector<HeuristicData>{merge({data})};
  };
  const LearnReport few = run(two_algorithms(better_when_small, 12), options);
  EXPECT_EQ(few.lessons.at(0).problems, 72);
  EXPECT_EQ(few.lessons.at(0).end, LessonEnd::TooFew);
  const LearnReport enough = run(two_algorithms(better_when_small, 13), options);
  EXPECT_EQ(enough.lessons.at(0).end, LessonEnd::Taken) << enough.to_text();
}

TEST_F(LearnTest, ProblemsOfTheCallerComeFirst) {
  LearnOptions options;
  options.first = {{"mine", {}, {{"n", 7.0}}}};
  run(two_algorithms(better_when_small, 5), options);
  const HeuristicData data =
      read_heuristic_log(folder_ + "/llvm-znver3.two_algorithms-v1.2.measured");
  EXPECT_TRUE(std::ranges::any_of(data.problems, [](const auto& p) { return p.id == "mine"; }));
}

TEST_F(LearnTest, WhatIsForgottenIsGone) {
  run(two_algorithms(better_when_small));
  EXPECT_EQ(forget_learned(target()).size(), 3U);
  EXPECT_FALSE(says(20).has_value());
  EXPECT_TRUE(learned(target()).lessons.empty());
  EXPECT_TRUE(forget_learned(target()).empty());
}

TEST_F(LearnTest, WithoutAFolderThereIsAnError) {
  const testing::Variable off{"HEDDLE_LEARNED", "off"};
  try {
    run(two_algorithms(better_when_small));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User);
    EXPECT_THAT(e.what(), HasSubstr("set HEDDLE_LEARNED"));
  }
}

}  // namespace
}  // namespace heddle
