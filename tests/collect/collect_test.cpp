// Collection: what is written, what is skipped when it goes on, and what a killed process leaves.
#include "heddle/heuristics/collect.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>

#include "heddle/heuristics/train_tree.h"
#include "heddle/heuristics/tree_choices.h"
#include "heddle/support/error.h"
#include "support/files/file.h"

namespace heddle {
namespace {

/// Two algorithms of a program's own: "a" takes n seconds, "b" always 100.
Heuristic two_algorithms() {
  Heuristic h;
  h.name = "two_algorithms";
  h.features = {{"n"}};
  h.augmented = {{{"half"}, [](const FeatureView& f) { return f["n"] / 2; }}};
  h.parameters = {{"algorithm", {"a", "b"}}};
  h.fallback = ParameterSet().set("algorithm", 1);
  h.candidates = [](const Situation&) {
    return std::vector<ParameterSet>{ParameterSet().set("algorithm", 0)};
  };
  h.draw = [](Rng& rng, const Target&) {
    const std::int64_t n = rng.uniform_int(1, 1000);
    return DrawnProblem{"n=" + std::to_string(n), {}, {{"n", double(n)}}};
  };
  h.measure = [](const DrawnProblem& p, const ParameterSet& c) {
    return c.get("algorithm", 0) == 0 ? p.features[0].value : 100.0;
  };
  return h;
}

class CollectTest : public ::testing::Test {
 protected:
  CollectTest() { std::filesystem::remove(log_); }
  ~CollectTest() override { std::filesystem::remove(log_); }

  CollectReport run(int problems, const Heuristic& h = two_algorithms()) const {
    CollectOptions options;
    options.log = log_;
    options.problems = problems;
    options.target = Target::parse("llvm -mcpu=znver3 -threads=2");
    return collect(h, options);
  }

  std::string log_ = ::testing::TempDir() + "collect_test_" + std::to_string(::getpid()) + ".jsonl";
};

TEST_F(CollectTest, WritesALineAProblem) {
  EXPECT_EQ(run(5).collected, 5);
  const HeuristicData data = read_heuristic_log(log_);
  EXPECT_EQ(data.heuristic, "two_algorithms");
  EXPECT_EQ(data.features.size(), 2U);
  EXPECT_EQ(data.choices,
            (std::vector<std::string>{R"({"algorithm":"a"})", R"({"algorithm":"b"})"}));
  ASSERT_EQ(data.problems.size(), 5U);
  for (const HeuristicProblem& p : data.problems) {
    EXPECT_EQ(p.features[1], p.features[0] / 2);
    EXPECT_EQ(p.seconds, (std::vector<double>{p.features[0], 100}));
    EXPECT_EQ(p.fallback, 1);
  }
}

// A machine without tile registers has no problem of them.
TEST_F(CollectTest, EndsWhereNoProblemIsOfTheHeuristic) {
  const CollectReport report = run(5, heuristic_of("tile_product"));
  EXPECT_EQ(report.collected, 0);
  EXPECT_GE(report.skipped, 100);
  EXPECT_EQ(report.ended, CollectEnd::Problems);
}

TEST_F(CollectTest, GoesOnWhereItStopped) {
  run(4);
  const CollectReport second = run(3);
  EXPECT_EQ(second.earlier, 4);
  EXPECT_EQ(second.collected, 3);
  const std::string in_two = read_file(log_);
  std::filesystem::remove(log_);
  run(7);
  EXPECT_EQ(read_file(log_), in_two) << "the problems are a matter of the seed";
}

TEST_F(CollectTest, RefusesTheLogOfAnother) {
  run(1);
  Heuristic other = two_algorithms();
  other.version = 2;
  try {
    run(1, other);
    FAIL();
  } catch (const Error& e) {
    EXPECT_NE(e.message.find("is of version '1', not '2'"), std::string::npos) << e.message;
  }
}

TEST_F(CollectTest, AKilledProcessLosesTheProblemAtHandOnly) {
  Heuristic slow = two_algorithms();
  slow.measure = [fast = slow.measure](const DrawnProblem& p, const ParameterSet& c) {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return fast(p, c);
  };
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    run(0, slow);  // until it is killed
    ::_exit(0);
  }
  const auto lines = [&] {
    std::ifstream in(log_);
    std::string line;
    int n = 0;
    while (std::getline(in, line)) ++n;
    return n;
  };
  while (lines() < 6) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
  // As a machine that goes down might leave it.
  std::ofstream(log_, std::ios::app) << R"({"problem": "n=0", "feat)";

  const HeuristicData left = read_heuristic_log(log_);
  EXPECT_GE(left.problems.size(), 5U);
  EXPECT_EQ(left.skipped.size(), 1U) << "the torn line";
  const CollectReport report = run(3);
  EXPECT_EQ(report.earlier, static_cast<int>(left.problems.size()));
  const HeuristicData all = read_heuristic_log(log_);
  EXPECT_EQ(all.problems.size(), left.problems.size() + 3);
  EXPECT_EQ(all.skipped.size(), 1U);
}

TEST_F(CollectTest, ATreeOfWhatWasCollectedAnswers) {
  const Heuristic h = two_algorithms();
  run(200);
  const LearnedChoice learned(h, train_tree(read_heuristic_log(log_)), "tree of the test");
  const auto says = [&](double n) { return learned.answer(NamedFeatures{{"n", n}}); };
  ASSERT_TRUE(says(20).choice.has_value()) << says(20).why;
  EXPECT_EQ(h.id_of(*says(20).choice), R"({"algorithm":"a"})");
  EXPECT_FALSE(says(700).choice.has_value()) << "the fallback is best there";
  EXPECT_FALSE(says(700).unsure);
  EXPECT_TRUE(says(1e6).unsure) << "far outside of what training saw";
}

}  // namespace
}  // namespace heddle
