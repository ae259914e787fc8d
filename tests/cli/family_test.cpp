// Subjects over a range of sizes on the command line.
#include <gmock/gmock.h>

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

TEST(FamilyCommand, MistakesAreExplained) {
  const auto error = [](const std::string& arguments) {
    const CommandResult r = heddle_command(arguments);
    EXPECT_EQ(r.status, 2) << arguments << r.out;
    return r.err;
  };
  EXPECT_THAT(error("explain matmul:9..2x8x8"), HasSubstr("dimension 'n' is 9 to 2"));
  EXPECT_THAT(error("explain matmul:1..2x1..2x8"), HasSubstr("two ranges"));
  EXPECT_THAT(error("explain matmul:1..x8x8"), HasSubstr("without two whole numbers"));
  EXPECT_THAT(error("explain matmul:1..4x8x8 --show loops"), HasSubstr("leave --show"));
  EXPECT_THAT(error("explain matmul:1..4x8x8 --target \"cuda -gpu=h200\""),
              HasSubstr("constant shapes"));
  EXPECT_THAT(error("tune matmul:1..4x8x8 softmax:8x8"), HasSubstr("tuned by itself"));
}

}  // namespace
}  // namespace heddle::cli
