// Subjects over a range of sizes on the command line.
#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "codegen/cuda/nvrtc/nvrtc.h"
#include "heddle/support/json.h"
#include "run_command.h"

namespace heddle::cli {
namespace {

using ::testing::HasSubstr;

TEST(FamilyCommand, ExplainShowsWhichKernelRunsAtWhichSizes) {
  const CommandResult r = heddle_command("explain matmul:1..4x8x8 --threads 1 --json");
  ASSERT_EQ(r.status, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_EQ(j.at("subject").as_string(), "matmul:1..4x8x8");
  const Json& family = j.at("family");
  EXPECT_EQ(family.at("dims").at(0).at("hi").as_int(), 4);
  EXPECT_EQ(family.at("rows").size(), 4u);
  EXPECT_GE(family.at("variants").size(), 1u);
  EXPECT_GE(family.at("rows").at(0).at("slowdown").as_double(), 1);
}

// On a fake GPU whose kernels take a time that follows from their blocks.
TEST(FamilyCommand, ExplainShowsWhichKernelOfAGpuRunsAtWhichSizes) {
  if (!cuda::nvrtc_available()) GTEST_SKIP() << cuda::nvrtc_missing_reason();
  const std::string gpu = "HEDDLE_LIBCUDA=" HEDDLE_TEST_FAKE_LIBCUDA " HEDDLE_FAKE_KERNELS=any";
  const std::string subject = "explain matmul:1..512x64x128 --dtype f16 --target cuda --race 0.1";
  const CommandResult r = heddle_command(subject, gpu);
  ASSERT_EQ(r.status, 0) << r.err;
  for (const char* part : {"for cuda -gpu=", "slowdown", "\n512  ", "kernels are kept"})
    EXPECT_THAT(r.out, HasSubstr(part));
  const CommandResult asked = heddle_command(subject + " --json --sizes 17*9,512", gpu);
  ASSERT_EQ(asked.status, 0) << asked.err;
  const Json family = Json::parse(asked.out).at("family");
  EXPECT_EQ(family.at("rows").size(), 2u);
  EXPECT_GE(family.at("variants").size(), 1u);
  const CommandResult bench =
      heddle_command("bench matmul:1..64x64x128 --target cuda --time 0.01 --sizes 3,64", gpu);
  ASSERT_EQ(bench.status, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("\n64 "));
}

TEST(FamilyCommand, SubjectsHaveTwoRanges) {
  const CommandResult r = heddle_command("explain matmul:1..3x2..3x8 --threads 1 --json");
  ASSERT_EQ(r.status, 0) << r.err;
  const Json family = Json::parse(r.out).at("family");
  EXPECT_EQ(family.at("dims").at(0).at("hi").as_int(), 3);
  EXPECT_EQ(family.at("dims").at(1).at("lo").as_int(), 2);
  EXPECT_EQ(family.at("rows").size(), 6u);
}

TEST(FamilyCommand, BenchTimesTheSizesThatAreAskedFor) {
  const CommandResult r =
      heddle_command("bench matmul:1..3x2..3x8 --threads 1 --time 0 --sizes 2x3,1x2");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("\n2x3 "));
  EXPECT_THAT(r.out, HasSubstr("\n1x2 "));
  const auto error = [](const std::string& arguments) {
    const CommandResult bad = heddle_command("bench matmul:1..9x8x8 " + arguments);
    EXPECT_EQ(bad.status, 2) << arguments << bad.out;
    return bad.err;
  };
  EXPECT_THAT(error("--sizes 10"), HasSubstr("cannot be 10"));
  EXPECT_THAT(error("--sizes 2x2"), HasSubstr("--sizes cannot be '2x2'"));
}

TEST(FamilyCommand, ReportDrawsWhichKernelRunsAtWhichSizes) {
  const std::string one = temporary("family.json"), two = temporary("family2.json"),
                    page = temporary("family.html");
  for (const auto& [path, subject] :
       {std::pair(one, "matmul:1..40x8x8"), std::pair(two, "matmul:1..4x2..5x8")}) {
    const CommandResult made =
        heddle_command(std::string("explain ") + subject + " --threads 1 --json");
    ASSERT_EQ(made.status, 0) << made.err;
    std::ofstream(path) << made.out;
  }
  const CommandResult r =
      heddle_command("report --family " + one + " --family " + two + " -o " + page);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("2 families"));
  std::stringstream text;
  text << std::ifstream(page).rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("matmul:1..40x8x8"));
  EXPECT_THAT(text.str(), HasSubstr("slowdown by size"));
  EXPECT_THAT(text.str(), HasSubstr("kernel by sizes"));
  EXPECT_THAT(text.str(), HasSubstr("slowdown 1.0"));
  std::ofstream(one) << "{}";
  const CommandResult bad = heddle_command("report --family " + one + " -o " + page);
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("cannot be read as a family"));
}

TEST(FamilyCommand, SizesAndKernelsAreThoseThatAreAskedFor) {
  for (const std::string command : {"explain", "tune --budget 0.5s --no-warm-start -q"}) {
    const std::string log =
        command[0] == 't' ? " --json - --log " + temporary("sizes.jsonl") : " --json";
    const CommandResult r = heddle_command(
        command + " matmul:1..40x8x8 --threads 1 --sizes '1*9,33' --max-kernels 1" + log);
    ASSERT_EQ(r.status, 0) << r.err;
    const Json family = Json::parse(r.out).at("family");
    EXPECT_EQ(family.at("variants").size(), 1u);
    ASSERT_EQ(family.at("rows").size(), 2u);
    EXPECT_EQ(family.at("rows").at(0).at("weight").as_double(), 9);
    EXPECT_EQ(family.at("rows").at(1).at("sizes").at(0).as_int(), 33);
  }
  const CommandResult bad = heddle_command("explain matmul:1..40x8x8 --sizes '1*x'");
  EXPECT_EQ(bad.status, 2);
  EXPECT_THAT(bad.err, HasSubstr("behind a star"));
}

TEST(FamilyCommand, MistakesAreExplained) {
  const auto error = [](const std::string& arguments) {
    const CommandResult r = heddle_command(arguments);
    EXPECT_EQ(r.status, 2) << arguments << r.out;
    return r.err;
  };
  EXPECT_THAT(error("explain matmul:9..2x8x8"), HasSubstr("dimension 'n' is 9 to 2"));
  EXPECT_THAT(error("explain matmul:1..2x1..2x1..2x1..2"), HasSubstr("more than three ranges"));
  EXPECT_THAT(error("explain matmul:1..x8x8"), HasSubstr("without two whole numbers"));
  EXPECT_THAT(error("explain matmul:1..4x8x8 --show loops"), HasSubstr("leave --show"));
  EXPECT_THAT(error("tune matmul:1..4x8x8 softmax:8x8"), HasSubstr("tuned by itself"));
}

}  // namespace
}  // namespace heddle::cli
