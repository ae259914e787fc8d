// The option --tolerance, as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "heddle/network/plan.h"
#include "heddle/onnx/import.h"
#include "heddle/runtime/npz.h"
#include "heddle/support/json.h"
#include "run_command.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const std::string kDigits = source_dir() + "/tutorials/data/digits.onnx:batch=8";

class Tolerance : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!onnx_available()) GTEST_SKIP() << "built without ONNX import";
    std::filesystem::create_directories(folder_);
    save_npz(samples_, {{"images", NDArray::random({40, 1, 8, 8}, f32, 1, 0, 1)}});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static CommandResult run(const std::string& arguments) {
    return heddle_command(arguments, "HEDDLE_CACHE=off");
  }

  std::string folder_ = temporary("tolerance");
  std::string samples_ = folder_ + "/samples.npz", plan_ = folder_ + "/digits.heddle",
              log_ = folder_ + "/digits.jsonl";
};

TEST_F(Tolerance, RunSaysWhatTypesCostAndGain) {
  const CommandResult r =
      run("run " + kDigits + " --plan none --tolerance 0.05 --time 0 --threads 1");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.err, HasSubstr("tolerance 0.05: 4 calls choose, and 4 others decide, on random "
                               "inputs, because no data are given"));
  const CommandResult quiet =
      run("run " + kDigits + " --plan none --tolerance 0.05 --time 0 --threads 1 -q");
  EXPECT_THAT(quiet.err, Not(HasSubstr("tolerance")));
  const CommandResult data = run("run " + kDigits +
                                 " --plan none --tolerance 0.05 --time 0 "
                                 "--threads 1 --data " +
                                 samples_);
  ASSERT_EQ(data.status, 0) << data.err;
  EXPECT_THAT(data.err, HasSubstr("3 calls choose, and 2 others decide, on the data"));
}

TEST_F(Tolerance, WhatWasChosenIsWrittenAsJson) {
  const std::string file = folder_ + "/types.json";
  const CommandResult r = run("run " + kDigits + " --plan none --tolerance 0.05 --time 0 " +
                              "--threads 1 -q --types-json " + file + " --data " + samples_);
  ASSERT_EQ(r.status, 0) << r.err;
  const Json json = Json::parse(read_file(file));
  EXPECT_EQ(json.at("tolerance").as_double(), 0.05);
  EXPECT_EQ(json.at("calls").as_int(), 5);
  const PassOptions passes = parse_passes(json.at("passes").as_string());
  size_t taken = 0;
  for (size_t t = 0; t < json.at("trials").size(); ++t) {
    const Json& trial = json.at("trials").at(t);
    if (trial.at("verdict").as_string() != "taken") continue;
    ++taken;
    EXPECT_EQ(to_string(passes.types.at(trial.at("product").as_string())),
              trial.at("type").as_string());
  }
  EXPECT_EQ(taken, passes.types.size());
  const CommandResult alone = run("run " + kDigits + " --plan none --time 0 --types-json " + file);
  EXPECT_EQ(alone.status, 2);
  EXPECT_THAT(alone.err, HasSubstr("--types-json goes with --tolerance"));
}

TEST_F(Tolerance, ATunedPlanHasTheTypesAndIsReplayed) {
  const std::string tune = "tune " + kDigits + " --tolerance 0.05 --budget 2s --threads 1 --log " +
                           log_ + " -o " + plan_ + " --data " + samples_;
  const CommandResult first = run(tune);
  ASSERT_EQ(first.status, 0) << first.err;
  const PassOptions passes = parse_passes(load_plan(plan_).passes);
  EXPECT_EQ(passes.tolerance, 0.05);
  const std::string resumed =
      "the plan has the types of " + std::to_string(passes.types.size()) + " products for it";
  const CommandResult again = run(tune);
  EXPECT_THAT(again.err, HasSubstr(resumed));
  EXPECT_EQ(parse_passes(load_plan(plan_).passes).types, passes.types);
  const CommandResult replayed = run("run " + plan_ + " --tolerance 0.05 --time 0");
  EXPECT_THAT(replayed.err, HasSubstr(resumed));
  const CommandResult other = run("run " + plan_ + " --tolerance 0 --time 0");
  EXPECT_THAT(other.err, HasSubstr("all stays in f32"));
  const CommandResult shown = run("plan show " + plan_);
  EXPECT_THAT(shown.out, HasSubstr("tolerance=0.05"));
}

TEST_F(Tolerance, ALibraryIsCheckedByTheTolerance) {
  const CommandResult r =
      run("deploy " + kDigits + " --tolerance 0.05 --budget 2s --threads 1 -o " + folder_ +
          "/out --data " + samples_);
  ASSERT_EQ(r.status, 0) << r.err << r.out;
  EXPECT_THAT(r.out, HasSubstr("the library was checked"));
}

TEST_F(Tolerance, AGpuThatIsNotHereIsJudgedByEstimates) {
  const CommandResult exported = run("export " + kDigits +
                                     " --target 'cuda -gpu=h100' --plan none "
                                     "--tolerance 0.05 -o " +
                                     folder_ + "/gpu");
  EXPECT_THAT(exported.err, HasSubstr("tolerance 0.05: 4 calls choose"));
}

TEST_F(Tolerance, AModelOverARangeKeepsItAtAllSizes) {
  const std::string model = source_dir() + "/tutorials/data/digits.onnx:batch=1..64";
  const std::string types = folder_ + "/types.json";
  const CommandResult r = run(
      "run " + model + " --plan none --time 0 --sizes 1,64 --tolerance 0.05 --types-json " + types);
  ASSERT_EQ(r.status, 0) << r.err;
  const Json json = Json::parse(read_file(types));
  EXPECT_EQ(json.at("tolerance").as_double(), 0.05);
  EXPECT_LE(json.at("error").as_double(), 0.05);
}

TEST_F(Tolerance, MistakesAreExitCode2) {
  const std::string model = "run " + kDigits + " --plan none --time 0 ";
  save_npz(folder_ + "/other.npz", {{"pictures", NDArray::zeros({32, 1, 8, 8}, f32)}});
  save_npz(folder_ + "/few.npz", {{"images", NDArray::zeros({8, 1, 8, 8}, f32)}});
  for (const std::string& line :
       {model + "--tolerance -0.1", model + "--tolerance nan", model + "--tolerance 1%",
        model + "--tolerance", model + "--data " + samples_,
        model + "--tolerance 0.1 --data " + folder_ + "/none.npz",
        model + "--tolerance 0.1 --data " + folder_ + "/other.npz",
        model + "--tolerance 0.1 --data " + folder_ + "/few.npz",
        model + "--tolerance 0.1 --passes 'precision@matmul:*=bf16'",
        "run " + source_dir() +
            "/tutorials/data/digits.onnx:batch=1..8 --passes precision@dense:1x1#1=bf16",
        "tune " + kDigits + " --budget 1s --types-json " + folder_ + "/t.json --log " + log_,
        "export matmul:64x64x64 --tolerance 0.1 -o " + folder_ + "/kernel",
        std::string("tune matmul:64x64x64 --tolerance 0.1 --budget 1s --log ") + log_}) {
    const CommandResult r = run(line);
    EXPECT_EQ(r.status, 2) << line << "\n" << r.err;
    EXPECT_THAT(r.err, HasSubstr("error")) << line;
  }
}

}  // namespace
}  // namespace heddle
