#include "heddle/heuristics/dataset.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "heddle/support/error.h"
#include "heuristics/planted.h"

namespace heddle {
namespace {

constexpr const char* kHeader =
    R"({"heddle_heuristic_log":1,"heuristic":"h","version":2,"features":[{"name":"n","kind":"numeric"},)"
    R"({"name":"flag","kind":"boolean"},{"name":"layout","kind":"categorical","values":["x","y"]}],)"
    R"("machine":"m","target":"t","seed":5,"a key of tomorrow":1})"
    "\n";

std::string row(const std::string& id, const std::string& features = "[3,1,0]",
                const std::string& choices = R"({"b":2.0,"a":1.5})") {
  return R"({"problem":")" + id + R"(","features":)" + features + R"(,"choices":)" + choices +
         R"(,"fallback":"b","noise":0.01,"unknown":[]})" + "\n";
}

std::string error_of(const std::string& text) {
  try {
    parse_heuristic_log(text, "log.jsonl");
  } catch (const Error& e) {
    EXPECT_EQ(e.kind, ErrorKind::User);
    return e.message;
  }
  return "none";
}

TEST(Dataset, ReadsALog) {
  const HeuristicData data =
      parse_heuristic_log(kHeader + row("q", "[4,0,null]") + row("p"), "log.jsonl");
  EXPECT_EQ(data.heuristic, "h");
  EXPECT_EQ(data.version, "2");
  EXPECT_EQ(data.machine, "m");
  EXPECT_EQ(data.target, "t");
  EXPECT_EQ(data.seed, 5u);
  EXPECT_EQ(data.choices, (std::vector<std::string>{"a", "b"}));
  ASSERT_EQ(data.problems.size(), 2u);
  EXPECT_EQ(data.problems[0].id, "p");
  EXPECT_EQ(data.problems[0].features, (std::vector<double>{3, 1, 0}));
  EXPECT_EQ(data.problems[0].seconds, (std::vector<double>{1.5, 2}));
  EXPECT_EQ(data.problems[0].fallback, 1);
  EXPECT_EQ(data.problems[0].best(), 1.5);
  EXPECT_TRUE(std::isnan(data.problems[1].features[2]));
  EXPECT_EQ(data.measurements(), 4);
  EXPECT_TRUE(data.skipped.empty());
}

TEST(Dataset, AMissingChoiceHasNoTime) {
  const HeuristicData data = parse_heuristic_log(
      kHeader + row("p") + row("q", "[3,1,0]", R"({"b":1.0,"c":4.0})"), "log.jsonl");
  EXPECT_EQ(data.choices.size(), 3u);
  EXPECT_TRUE(data.problems[0].has(0));
  EXPECT_FALSE(data.problems[0].has(2));
  EXPECT_FALSE(data.problems[1].has(0));
  EXPECT_FALSE(data.problems[1].has(-1));
  EXPECT_FALSE(data.problems[1].has(3));
  EXPECT_EQ(data.problems[1].best(), 1.0);
}

// The earlier lines are complete, at whatever byte a process was killed.
TEST(Dataset, ATornLastLineIsDropped) {
  const std::string whole = kHeader + row("p") + row("q");
  const std::size_t second = whole.size() - row("q").size();
  for (std::size_t cut = second; cut < whole.size() - 1; ++cut) {
    const HeuristicData data = parse_heuristic_log(whole.substr(0, cut), "log.jsonl");
    ASSERT_EQ(data.problems.size(), cut == whole.size() - 1 ? 2u : 1u) << cut;
    ASSERT_EQ(data.skipped.size(), cut == second ? 0u : 1u) << cut;
  }
  // Only the newline is missing.
  EXPECT_EQ(parse_heuristic_log(whole.substr(0, whole.size() - 1), "l").problems.size(), 2u);
  const HeuristicData torn = parse_heuristic_log(whole.substr(0, whole.size() - 9), "log.jsonl");
  EXPECT_EQ(torn.skipped[0], "log.jsonl:3: torn last line skipped");
}

// The next process appends behind a torn line, on a line of its own.
TEST(Dataset, ATornLineInTheMiddleIsSkipped) {
  const HeuristicData data =
      parse_heuristic_log(kHeader + row("p").substr(0, 30) + "\n" + row("q"), "log.jsonl");
  ASSERT_EQ(data.problems.size(), 1u);
  EXPECT_EQ(data.problems[0].id, "q");
  EXPECT_EQ(data.skipped.size(), 1u);
}

TEST(Dataset, OfTwoLinesWithOneProblemTheLaterCountsAsAWhole) {
  const HeuristicData data =
      parse_heuristic_log(kHeader + row("p") + row("p", "[3,1,0]", R"({"b":7.0})"), "log.jsonl");
  ASSERT_EQ(data.problems.size(), 1u);
  EXPECT_EQ(data.choices, (std::vector<std::string>{"b"}));
  EXPECT_EQ(data.problems[0].seconds, (std::vector<double>{7}));
}

TEST(Dataset, ABadLineIsSkippedAndNamed) {
  const auto why = [](const std::string& line) {
    const HeuristicData data = parse_heuristic_log(kHeader + line + row("good"), "log.jsonl");
    EXPECT_EQ(data.problems.size(), 1u) << line;
    return data.skipped.empty() ? "none" : data.skipped[0];
  };
  const auto expect = [&](const std::string& line, const std::string& part) {
    const std::string said = why(line);
    EXPECT_NE(said.find("log.jsonl:2: "), std::string::npos) << said;
    EXPECT_NE(said.find(part), std::string::npos) << said;
  };
  expect(row("p", "[3,1]"), "2 features in place of 3");
  expect(row("p", "[3,2,0]"), "'flag' is boolean");
  expect(row("p", "[3,1,2]"), "'layout' is categorical");
  expect(row("p", "[3,1,0.5]"), "'layout' is categorical");
  expect(row("p", R"(["3",1,0])"), "string");
  expect(row("p", "[3,1,0]", R"({"a":1.0})"), "fallback 'b' has no time");
  expect(row("p", "[3,1,0]", R"({"b":0})"), "no positive time");
  expect(row("p", "[3,1,0]", R"({"b":-1.0})"), "no positive time");
  expect("[]\n", "");
  expect("{}\n", "problem");
}

TEST(Dataset, AHeaderThatIsNoneIsAnError) {
  EXPECT_NE(error_of("").find("log.jsonl: the log is empty"), std::string::npos);
  EXPECT_NE(error_of("{}\n").find("log.jsonl:1: "), std::string::npos);
  EXPECT_NE(error_of("no json\n").find("log.jsonl:1: "), std::string::npos);
  EXPECT_NE(error_of(row("p")).find("heddle_heuristic_log"), std::string::npos);
  EXPECT_NE(error_of(R"({"heddle_heuristic_log":2})").find("format 2"), std::string::npos);
  const auto with_features = [](const std::string& features) {
    return R"({"heddle_heuristic_log":1,"heuristic":"h","version":"1","features":)" + features +
           "}\n";
  };
  EXPECT_NE(error_of(with_features("[]")).find("no features"), std::string::npos);
  EXPECT_NE(error_of(with_features(R"([{"name":"n","kind":"round"}])")).find("'round'"),
            std::string::npos);
  EXPECT_NE(
      error_of(with_features(R"([{"name":"n","kind":"numeric"},{"name":"n","kind":"numeric"}])"))
          .find("twice"),
      std::string::npos);
  EXPECT_NE(error_of(with_features(R"([{"name":"n","kind":"categorical","values":["x","x"]}])"))
                .find("differ"),
            std::string::npos);
}

TEST(Dataset, WhatIsWrittenIsReadAgain) {
  HeuristicData data = planted_data();
  Rng rng(4);
  add_problems(data, 20, [](const auto&) { return std::vector<double>{1, kNotMeasured, 3}; }, rng);
  data.problems[3].features[2] = kNotMeasured;
  data.problems[4].of_constants = {{"00ab", 2.5}, {"77cd", 0.5}};
  std::string text = heuristic_log_header(data).dump() + "\n";
  for (const HeuristicProblem& p : data.problems) text += heuristic_log_line(data, p).dump() + "\n";
  const HeuristicData again = parse_heuristic_log(text, "log");
  EXPECT_TRUE(again.skipped.empty());
  EXPECT_EQ(again.features, data.features);
  EXPECT_EQ(again.choices, (std::vector<std::string>{"a", "c"}));  // "b" was never measured
  ASSERT_EQ(again.problems.size(), data.problems.size());
  EXPECT_EQ(std::ranges::count_if(again.problems,
                                  [](const auto& p) { return p.of_constants.size() == 2; }),
            1);
  std::string twice = heuristic_log_header(again).dump() + "\n";
  for (const HeuristicProblem& p : again.problems) {
    twice += heuristic_log_line(again, p).dump() + "\n";
  }
  EXPECT_EQ(twice, text);
}

TEST(Dataset, LogsMerge) {
  const HeuristicData a = parse_heuristic_log(kHeader + row("p") + row("q"), "a");
  const HeuristicData b =
      parse_heuristic_log(kHeader + row("q", "[9,0,1]", R"({"b":3.0,"c":1.0})"), "b");
  const HeuristicData both = merge({a, b});
  EXPECT_EQ(both.choices, (std::vector<std::string>{"a", "b", "c"}));
  ASSERT_EQ(both.problems.size(), 2u);
  EXPECT_EQ(both.problems[1].features[0], 9);
  EXPECT_EQ(both.problems[1].fallback, 1);
  EXPECT_FALSE(both.problems[1].has(0));
  EXPECT_EQ(both.problems[1].seconds[2], 1.0);
  HeuristicData other = a;
  other.version = "3";
  EXPECT_THROW(merge({a, other}), Error);
  other = a;
  other.features[0].name = "m";
  EXPECT_THROW(merge({a, other}), Error);
  EXPECT_THROW(merge({}), Error);
}

TEST(Dataset, TheSameProblemOnAnotherMachineIsAnotherOne) {
  HeuristicData a = parse_heuristic_log(kHeader + row("p"), "a"), b = a, c = a;
  b.machine = "n";
  const HeuristicData all = merge({a, b, c});
  ASSERT_EQ(all.problems.size(), 2u);
  EXPECT_EQ(all.problems[0].id, "p");
  EXPECT_EQ(all.problems[1].id, "p on n t");
  EXPECT_EQ(all.machine, "m, n");
  c.target = "t -threads=2";
  EXPECT_EQ(merge({a, c}).problems.size(), 2u) << "of another number of threads";
  c = a;
  EXPECT_EQ(merge({a, c}).problems[0].id, "p");
}

TEST(Dataset, FoldsAreOfEqualSizeAndDependOnTheSeed) {
  HeuristicData data = planted_data();
  Rng rng(4);
  add_problems(data, 53, [](const auto&) { return std::vector<double>{1, 2, 3}; }, rng);
  const std::vector<std::int32_t> fold = folds_of(data, 5, 1);
  for (int f = 0; f < 5; ++f) {
    const auto size = std::count(fold.begin(), fold.end(), f);
    EXPECT_GE(size, 10);
    EXPECT_LE(size, 11);
  }
  EXPECT_EQ(fold, folds_of(data, 5, 1));
  EXPECT_NE(fold, folds_of(data, 5, 2));
}

}  // namespace
}  // namespace heddle
