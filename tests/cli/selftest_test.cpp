// heddle selftest: what it prints, and its exit status.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "commands.h"
#include "heddle/schedule/template.h"
#include "heddle/support/error.h"
#include "options/parse_line.h"
#include "run_command.h"

namespace heddle {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

// In this process, while it is on, no declaration can be scheduled.
bool broken = false;
bool matches(const ComputeDag&, const StageGroup&, const Target&) { return broken; }
void build(TemplateBuilder&, const StageGroup&) { throw_user_error("broken on purpose"); }
HEDDLE_REGISTER_META_TEMPLATE({"broken_on_purpose", 1000, matches, build});

TEST(Selftest, PrintsAPassCountLast) {
  const CommandResult r = heddle_command("selftest --count 3 --seed 40");
  EXPECT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_EQ(r.out, "3 of 3 pairs passed\n");
  const CommandResult v = heddle_command("selftest --count 2 --seed 40 --only matmul --verbose");
  EXPECT_EQ(v.status, 0) << v.out << v.err;
  EXPECT_THAT(v.out, AllOf(StartsWith("seed "), HasSubstr("matmul"), HasSubstr("complex_reduction"),
                           EndsWith("2 of 2 pairs passed\n")));
}

TEST(Selftest, PairsAreChosenByTheirConfigs) {
  const std::string command = "selftest --target \"cuda -gpu=h200\" --emulate --only 'whole rows' ";
  const CommandResult r = heddle_command(command + "--config wgmma --count 2 --verbose");
  EXPECT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("\"wgmma\""), EndsWith("2 of 2 pairs passed\n")));
  const CommandResult none = heddle_command(command + "--config no_such_knob --count 1");
  EXPECT_EQ(none.status, 2) << none.out << none.err;
  EXPECT_THAT(none.err, HasSubstr("no pair has the text 'no_such_knob'"));
}

TEST(Selftest, PrintsCodeForAnyMachine) {
  const std::string gpu = "selftest --target \"cuda -gpu=h200\" --code --count 3 --only product";
  const CommandResult r = heddle_command(gpu);
  EXPECT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_THAT(r.out, AllOf(StartsWith("seed "), HasSubstr("__global__"),
                           EndsWith("3 of 3 pairs have code\n")));
  EXPECT_EQ(r.out, heddle_command(gpu).out);
  const CommandResult cpu =
      heddle_command("selftest --target \"llvm -mcpu=apple-m1\" --code --count 1");
  EXPECT_THAT(cpu.out, HasSubstr("define ")) << cpu.err;
  const CommandResult both = heddle_command("selftest --target cuda --code --emulate");
  EXPECT_EQ(both.status, 2);
  EXPECT_THAT(both.err, HasSubstr("leave one out"));
}

TEST(Selftest, AFailureHasAReproducer) {
  broken = true;
  cli::Request options = cli::request_for("selftest");
  options.count = 2;
  options.seed = 7;
  ::testing::internal::CaptureStdout();
  const int status = cli::run_selftest(options);
  const std::string out = ::testing::internal::GetCapturedStdout();
  broken = false;
  EXPECT_EQ(status, 1);
  EXPECT_THAT(out, AllOf(HasSubstr("seed 8: threw: "), HasSubstr("broken on purpose")));
  EXPECT_THAT(out, HasSubstr("reproduce: heddle selftest --target \"llvm -mcpu=native\" --count 1 "
                             "--seed 8\n"));
  EXPECT_THAT(out, EndsWith("0 of 2 pairs passed\n"));
}

// Schedules for tiles of AMX, and for vectors of 512 bits, as code for a CPU that has neither.
TEST(Selftest, SchedulesOfOneCpuAreCompiledForAnother) {
#if !defined(__x86_64__)
  GTEST_SKIP() << "the targets are x86";
#endif
  const std::string command =
      "selftest --target \"llvm -mcpu=graniterapids\" --compile-for \"llvm -mcpu=x86-64-v2\" "
      "--only 'product(' --count 16 --seed 400 --verbose";
  const CommandResult r = heddle_command(command);
  EXPECT_EQ(r.status, 0) << r.out << r.err;
  EXPECT_THAT(r.out, AllOf(HasSubstr("tile_product"), EndsWith("16 of 16 pairs passed\n")));
  const CommandResult gpu = heddle_command("selftest --target cuda --compile-for llvm");
  EXPECT_EQ(gpu.status, 2);
  EXPECT_THAT(gpu.err, HasSubstr("between CPUs alone"));
  const CommandResult away = heddle_command("selftest --compile-for \"llvm -mcpu=apple-m1\"");
  EXPECT_EQ(away.status, 2);
  EXPECT_THAT(away.err, HasSubstr("'llvm -mcpu=apple-m1' do not run on this machine"));
}

TEST(Selftest, BadInput) {
  const CommandResult cpu = heddle_command("selftest --emulate");
  EXPECT_EQ(cpu.status, 2);
  EXPECT_THAT(cpu.err, HasSubstr("only GPUs are emulated"));
  const CommandResult away = heddle_command("selftest --target \"llvm -mcpu=apple-m1\"");
  EXPECT_EQ(away.status, 2);
  const CommandResult nothing = heddle_command("selftest --count 1 --only no_such_operator");
  EXPECT_EQ(nothing.status, 2);
  EXPECT_THAT(nothing.err, HasSubstr("no declaration has the text 'no_such_operator'"));
}

}  // namespace
}  // namespace heddle
