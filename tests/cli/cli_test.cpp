// list, help, and the messages about invalid input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <ostream>
#include <vector>

#include "run_command.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST(List, ShowsKindsAndWorkloads) {
  const CommandResult r = heddle_command("list");
  EXPECT_EQ(r.status, 0);
  EXPECT_THAT(r.err, IsEmpty());
  for (const char* text :
       {"matmul:MxNxK", "conv2d:c=C,h=H,k=K[,n=1,w=h", "softmax:ROWSxCOLS", "for example lenet:128",
        "depthwise_conv2d", "resize_bilinear", "conv_bn_relu", "attention", "networks"}) {
    EXPECT_THAT(r.out, HasSubstr(text));
  }
}

TEST(List, ShowsOneKind) {
  const CommandResult r = heddle_command("list conv2d");
  EXPECT_EQ(r.status, 0);
  EXPECT_THAT(r.out, HasSubstr("that of h"));
  EXPECT_THAT(r.out, HasSubstr("(nchw, nhwc)"));
  EXPECT_THAT(r.out, Not(HasSubstr("softmax")));
}

TEST(List, ShowsOneListOfWorkloads) {
  const CommandResult r = heddle_command("list types");
  EXPECT_EQ(r.status, 0);
  EXPECT_THAT(r.out, HasSubstr("matmul:1024x1024x1024 --dtype bf16\n"));
}

TEST(WorkerCommand, ServesWhatItUnderstands) {
  EXPECT_EQ(heddle_command("worker < /dev/null").status, 0);
  const CommandResult r = heddle_command("list | HEDDLE_TOPHUB=off " HEDDLE_COMMAND " worker");
  EXPECT_EQ(r.status, 2);
  EXPECT_EQ(r.out, "");
  EXPECT_NE(r.err.find("what arrived is no frame of a message"), std::string::npos) << r.err;
}

TEST(CacheCommand, ListsAndClears) {
  const std::string folder = temporary("cache");
  const auto run = [&](const std::string& words) {
    return heddle_command("cache " + words, "HEDDLE_CUBIN_CACHE= HEDDLE_CACHE=" + folder);
  };
  EXPECT_THAT(run("list").out, HasSubstr(folder + "/code"));
  const CommandResult cleared = run("clear");
  EXPECT_EQ(cleared.status, 0) << cleared.err;
  EXPECT_THAT(cleared.out, HasSubstr("code: 0 files removed"));
  EXPECT_EQ(run("").status, 2);
  std::filesystem::create_directories(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  const std::string refused = run("list").out;
  EXPECT_THAT(refused, HasSubstr(folder + "/code (not used)"));
  EXPECT_THAT(refused, HasSubstr("other users can write to it (mode 0777)"));
  std::filesystem::remove_all(folder);
}

TEST(Help, EachCommandHasExamples) {
  for (const char* arguments : {"--help", "list --help", "explain --help", "bench --help",
                                "tune --help", "report --help"}) {
    const CommandResult r = heddle_command(arguments);
    EXPECT_EQ(r.status, 0) << arguments;
    EXPECT_THAT(r.out, HasSubstr("Examples:")) << arguments;
    EXPECT_THAT(r.err, IsEmpty()) << arguments;
  }
  const CommandResult version = heddle_command("--version");
  EXPECT_EQ(version.status, 0);
  EXPECT_THAT(version.out, HasSubstr("heddle "));
}

TEST(Help, OneOptionSaysTheTypeAndWhatItMeansForAModel) {
  for (const char* command : {"run", "explain", "export", "profile", "tune"}) {
    const CommandResult r = heddle_command(std::string(command) + " --help");
    EXPECT_THAT(r.out, HasSubstr("--dtype")) << command;
    EXPECT_THAT(r.out, HasSubstr("Of a model f32, f16 or bf16")) << command;
    EXPECT_THAT(r.out, Not(HasSubstr("--precision"))) << command;
  }
}

struct Bad {
  const char* arguments;
  std::vector<const char*> says;
  friend std::ostream& operator<<(std::ostream& out, const Bad& bad) {
    return out << "heddle " << bad.arguments;
  }
};

class BadInput : public ::testing::TestWithParam<Bad> {};

TEST_P(BadInput, ExitsTwoAndHelps) {
  const CommandResult r = heddle_command(GetParam().arguments);
  EXPECT_EQ(r.status, 2) << r.err;
  EXPECT_THAT(r.out, IsEmpty());
  for (const char* text : GetParam().says) EXPECT_THAT(r.err, HasSubstr(text));
}

INSTANTIATE_TEST_SUITE_P(
    Subjects, BadInput,
    ::testing::Values(
        Bad{"explain matmull:8x8x8", {"unknown subject 'matmull'", "did you mean 'matmul'?"}},
        Bad{"explain matmul", {"matmul needs 'm' (rows of the result)", "write matmul:MxNxK"}},
        Bad{"explain matmul:", {"matmul needs 'm'"}},
        Bad{"explain matmul:8x8", {"'8x8' has 2 extents, not 3"}},
        Bad{"explain matmul:8x8x8x", {"has 4 extents, not 3"}},
        Bad{"explain matmul:8x8xk", {"k must be a whole number, not 'k'", "for example matmul:"}},
        Bad{"explain matmul:8x0x8", {"n is 0; it must be 1 to"}},
        Bad{"explain matmul:8x-1x8", {"n is -1"}},
        Bad{"explain matmul:8x8x99999999999999999999", {"must be a whole number"}},
        Bad{"explain matmul:8x8x8,tc=1", {"matmul has no argument 'tc'", "m, n, k, ta, tb"}},
        Bad{"explain matmul:8x8x8,k=8", {"k is given twice"}},
        Bad{"explain matmul:8x8x8,", {"'' is not of the form name=value"}},
        Bad{"explain conv2d:c=4,h=8,k=4,strid=1", {"did you mean 'stride'?"}},
        Bad{"explain conv2d:c=4,h=8,k=4,layout=nchwc", {"one of nchw, nhwc"}},
        Bad{"explain conv2d:8x8x8", {"not of the form name=value", "write conv2d:"}},
        Bad{"explain conv2d:c=4,h=2,k=4,r=5", {"conv2d:c=4,h=2,k=4,r=5 (f32): "}},
        Bad{"explain conv2d:c=4,h=8,k=4,groups=3", {"groups"}},
        Bad{"explain softmax:8x8 --dtype i8", {"softmax:8x8 (i8): "}},
        Bad{"explain transpose:2000000000x2000000000", {"too many elements"}},
        Bad{"bench matmul:1000000x1000000x1000000", {"GB are free"}}));

INSTANTIATE_TEST_SUITE_P(
    Options, BadInput,
    ::testing::Values(
        Bad{"", {"Usage", "Examples:"}},
        Bad{"bnech matmul:8x8x8", {"there is no subcommand 'bnech'", "did you mean 'bench'?"}},
        Bad{"explain", {"subject is required", "heddle explain --help"}},
        Bad{"explain matmul:8x8x8 --shwo dag", {"--shwo", "did you mean '--show'?"}},
        Bad{"explain matmul:8x8x8 --show dga", {"did you mean 'dag'?"}},
        Bad{"explain matmul:8x8x8 --show loops --pass vectorise", {"did you mean 'vectorize'?"}},
        Bad{"explain matmul:8x8x8 --target llvmm", {"llvm"}},
        Bad{"explain matmul:8x8x8 --target 'llvm -mcpu=hasswell'", {"haswell"}},
        Bad{"explain matmul:8x8x8 --threads 0", {"--threads"}},
        Bad{"explain matmul:8x8x8 --dtype f33", {"there is no type 'f33'", "did you mean 'f32'?"}},
        Bad{"bench", {"nothing to run", "heddle list"}},
        Bad{"bench matmul:8x8x8 --peers onedn", {"did you mean 'onednn'?"}},
        Bad{"bench net.onnx:batch=1", {"there is no file 'net.onnx'"}},
        Bad{"picks list --store /no/such", {"/no/such", "heddle picks list --help"}},
        Bad{"bench --workloads matmuls", {"did you mean 'matmul'?"}},
        Bad{"bench matmul:8x8x8 --json /nowhere/x.json", {"there is no folder /nowhere"}},
        Bad{"bench matmul:8x8x8 --json /tmp", {"it is a folder"}},
        Bad{"run matmul:8x8x8", {"'matmul:8x8x8' is no model"}},
        Bad{"run net.onnx --precision f16", {"--precision", "heddle run --help"}},
        Bad{"export matmul:1..8x8x8 -o /proc/none", {"cannot write in the folder '/proc/none'"}},
        Bad{"list conv2", {"did you mean 'conv2d'?"}}));

INSTANTIATE_TEST_SUITE_P(
    Tuning, BadInput,
    ::testing::Values(
        Bad{"tune", {"nothing to tune", "heddle list"}},
        Bad{"tune matmull:8x8x8", {"did you mean 'matmul'?"}},
        Bad{"tune matmul:8x8x8 --budget 10x", {"--budget cannot be '10x'", "1h30m"}},
        Bad{"tune matmul:8x8x8 --budgett 10", {"did you mean '--budget'?"}},
        Bad{"tune matmul:8x8x8 --policy evolution", {"did you mean 'evolutionary'?"}},
        Bad{"tune matmul:8x8x8 --cost-model xgbost",
            {"did you mean 'xgboost'?", "a file that can"}},
        Bad{"tune matmul:8x8x8 --log /nowhere/x.jsonl", {"there is no folder /nowhere"}},
        Bad{"tune matmul:8x8x8 --json /tmp", {"it is a folder"}},
        Bad{"tune matmul:8x8x8 --trials 0", {"--trials"}},
        Bad{"tune matmul:8x8x8 --dtype f33", {"did you mean 'f32'?"}},
        Bad{"report", {"there is no log to report", "--picks"}},
        Bad{"report /dev/null -o /nowhere/x.html", {"there is no folder /nowhere"}},
        Bad{"report /dev/null -o - --calls matmul", {"--calls cannot be 'matmul'", "512=3"}}));

}  // namespace
}  // namespace heddle
