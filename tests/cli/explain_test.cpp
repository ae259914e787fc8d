// explain: each part of several subjects, as text and as JSON.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>

#include "heddle/support/json.h"
#include "heddle/target/target.h"
#include "run_command.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

const char* const kConv = "conv_bias_relu:c=8,h=6,k=16,r=3,pad=1,layout=nhwc";

TEST(ExplainConstants, ThoseOfProductsOnGpusDecide) {
  const auto deciding = [](const std::string& subject) {
    const CommandResult r =
        heddle_command("explain " + subject + " --target 'cuda -gpu=h200' --show constants");
    EXPECT_EQ(r.status, 0) << r.err;
    return r.out;
  };
  EXPECT_THAT(deciding("matmul:300x500x700"), HasSubstr("simt_block_steps"));
  EXPECT_THAT(deciding("matmul:96x112x4096 --dtype f16"), HasSubstr("mma_sum_cycles"));
  EXPECT_THAT(deciding("matmul:4096x4096x4096 --dtype f16"), HasSubstr("group_together"));
}

TEST(Explain, TellsClassesScheduleAndTimes) {
  const CommandResult r = heddle_command("explain matmul:32x48x16 --threads 1");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.err, IsEmpty());
  for (const char* text : {"== classes ==", "complex reduction", "== schedule ==", "analytic rule",
                           "== times ==", "template", "lower: vectorize", "codegen",
                           "scheduling and lowering", "total"}) {
    EXPECT_THAT(r.out, HasSubstr(text));
  }
}

TEST(Explain, ShowsEachPart) {
  const std::pair<const char*, const char*> parts[] = {
      {"dag", "conv2d"},       {"classes", "reduction"},    {"template", "knob "},
      {"space", "configs"},    {"certificate", "at least"}, {"schedule", "split("},
      {"loops", "for "},       {"llvm", "define "},         {"asm", "ret"},
      {"times", "instantiate"}};
  for (const auto& [part, text] : parts) {
    const CommandResult r =
        heddle_command("explain " + std::string(kConv) + " --threads 2 --show " + part);
    EXPECT_EQ(r.status, 0) << part << ": " << r.err;
    EXPECT_THAT(r.out, HasSubstr(text)) << part;
    EXPECT_THAT(r.out, Not(HasSubstr("=="))) << part;
  }
}

TEST(Explain, ListsTheInstructionsOfMatrixUnits) {
  const auto shown = [](const std::string& subject, const std::string& target) {
    const CommandResult r =
        heddle_command("explain " + subject + " --target \"" + target + "\" --show instructions");
    EXPECT_EQ(r.status, 0) << r.err;
    return r.out;
  };
  EXPECT_THAT(shown("matmul:1024x1024x1024 --dtype f16", "cuda -gpu=h200"),
              AllOf(HasSubstr("wgmma 64x"), HasSubstr("x16 f32 += f16 * f16"),
                    HasSubstr("TMA load "), HasSubstr("TMA store ")));
  EXPECT_THAT(shown("matmul:1024x1024x1024 --dtype i8", "cuda -gpu=a100"),
              AllOf(HasSubstr("mma 16x8x32 i32 += i8 * i8"), HasSubstr("ldmatrix x4 i8")));
  EXPECT_THAT(shown("softmax:64x64", "cuda -gpu=h200"),
              HasSubstr("no kernel uses a matrix unit or TMA"));
  EXPECT_THAT(shown("matmul:512x512x512 --dtype bf16", "llvm -mcpu=graniterapids -threads=1"),
              HasSubstr("amx"));
}

TEST(Explain, TakesSeveralKindsOfSubjects) {
  for (const char* subject :
       {"softmax:9x33", "transpose:9x33", "row_sum:9x33", "lenet:2", "attention:2x8x4",
        "max_pool2d:c=3,h=9,pad=1", "depthwise_conv2d:c=8,h=6,pad=1", "conv1d:c=3,w=9,k=4",
        "matmul:8x8x8 --dtype bf16", "matmul:8x8x8 --dtype i8"}) {
    const CommandResult r =
        heddle_command(std::string("explain ") + subject + " --show classes,schedule,loops");
    EXPECT_EQ(r.status, 0) << subject << ": " << r.err;
    EXPECT_THAT(r.out, HasSubstr("== loops ==")) << subject;
  }
}

TEST(Explain, ShowsTheProgramAfterPasses) {
  const std::string base = "explain matmul:8x8x8 --threads 1 ";
  const CommandResult one = heddle_command(base + "--pass unroll");
  EXPECT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("unroll"));
  const CommandResult all = heddle_command(base + "--show loops --pass all");
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.out, StartsWith("# after pass 1, build_nest"));
  EXPECT_THAT(all.out, HasSubstr("vectorize"));
}

TEST(Explain, TheNaiveScheduleHasNoTemplate) {
  const CommandResult r =
      heddle_command("explain --naive --show schedule --show space,times matmul:8x8x8");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("naive"));
  EXPECT_THAT(r.out, HasSubstr("no knobs"));
}

TEST(Explain, KnowsOtherTargets) {
  const CommandResult avx512 =
      heddle_command("explain matmul:64x64x64 --show asm --target 'llvm -mcpu=skylake-avx512'");
  EXPECT_EQ(avx512.status, 0) << avx512.err;
  EXPECT_THAT(avx512.out, HasSubstr("zmm"));
  const CommandResult arm = heddle_command(
      "explain matmul:64x64x64 --show times --target 'llvm -mcpu=neoverse-n1 "
      "-mtriple=aarch64-linux-gnu'");
  EXPECT_EQ(arm.status, 2);
  EXPECT_THAT(arm.err, HasSubstr("do not run on this machine"));
}

// What a target that does not run here can show is shown.
TEST(Explain, OfAnotherMachineAllButTimes) {
  const CommandResult r = heddle_command(
      "explain lenet:57 --dtype bf16 --threads 1 --target 'llvm -mcpu=neoverse-n1 "
      "-mtriple=aarch64-linux-gnu'");
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("== instructions =="));
  EXPECT_EQ(count(r.out, "== times =="),
            Target::parse("llvm -mcpu=neoverse-n1").runs_here() ? 1 : 0);
}

TEST(Explain, WritesJson) {
  const CommandResult r = heddle_command(
      "explain matmul:32x48x16 --json --threads 1 --show space,classes,schedule,times,loops");
  ASSERT_EQ(r.status, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_EQ(j.at("subject").as_string(), "matmul:32x48x16");
  EXPECT_EQ(j.at("flops").as_double(), 2.0 * 32 * 48 * 16);
  EXPECT_EQ(j.at("bytes").as_int(), 4 * (32 * 16 + 16 * 48 + 32 * 48));
  EXPECT_GE(j.at("space").at("size").as_double(), 2);
  for (const Json& knob : j.at("space").at("knobs").elements()) {
    bool listed = false;
    for (const Json& v : knob.at("values").elements()) listed |= v == knob.at("default");
    EXPECT_TRUE(listed) << knob.dump();
  }
  EXPECT_GT(j.at("times").at("first_ms").at("total").as_double(), 0);
  EXPECT_GT(j.at("times").at("again_ms").at("parts").size(), 5u);
  EXPECT_THAT(j.at("loops").as_string(), HasSubstr("for "));
}

}  // namespace
}  // namespace heddle
