// heddle onnx, and the commands that take a model: run, explain.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>

#include "heddle/onnx/import.h"
#include "heddle/runtime/ndarray.h"
#include "heddle/support/json.h"
#include "onnx/model_builder.h"
#include "run_command.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

TEST(TuneCommand, DimensionsNeedAModel) {
  const CommandResult r = heddle_command("tune --workloads conv --dims batch=4");
  EXPECT_EQ(r.status, 2) << r.out;
  EXPECT_THAT(r.err, ::testing::HasSubstr("no model is to be tuned"));
}

TEST(OnnxCommand, ListsWhatIsSupportedAndWhatIsNot) {
  const CommandResult r = heddle_command("onnx --coverage");
  if (!onnx_available()) {
    EXPECT_EQ(r.status, 2);
    EXPECT_THAT(r.err, HasSubstr("libprotobuf-dev"));
    return;
  }
  EXPECT_EQ(r.status, 0) << r.err;
  const size_t second = r.out.find(" are not:");
  ASSERT_NE(second, std::string::npos) << r.out;
  EXPECT_LT(r.out.find(" Conv "), second);
  EXPECT_GT(r.out.find(" ImageDecoder"), second);
  EXPECT_GT(r.out.find(" FastGelu"), r.out.find(" of the domain com.microsoft are supported:"));
  EXPECT_EQ(heddle_command("onnx").status, 2);
}

// The network of the lessons: its weights are external data beside it.
const std::string kDigits = source_dir() + "/tutorials/data/digits.onnx";

class ModelCommands : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!onnx_available()) GTEST_SKIP() << "built without ONNX import";
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string folder_ = temporary("models");
};

/// As one word of a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

// A name is text: of a file, of a folder, of a tensor and of a node.
TEST_F(ModelCommands, NamesMayHoldWhatAShellWouldRun) {
  const std::string name = "it's \"a\" $(touch pwned) `id`;&\\ %s%n\n";
  testing::ModelParts parts;
  parts.inputs = {testing::value_info(name, {"2", "3"})};
  parts.outputs = {testing::value_info(name + "y", {"2", "3"})};
  parts.nodes = {testing::node(name, "Relu", {name}, {name + "y"})};
  const std::string folder = folder_ + "/it's \"a\" $(touch pwned) `id`";
  std::filesystem::create_directories(folder);
  const std::string model = folder + "/m;&\".onnx", in = folder + "/x.npy";
  write_file_atomic(model, testing::model_bytes(parts));
  NDArray::random({2, 3}, f32, 1).save(in);
  const std::string before = std::filesystem::current_path();
  std::filesystem::current_path(folder_);
  const CommandResult run =
      heddle_command("run " + quoted(model) + " --time 0 --threads 1 --input " +
                     quoted(name + "=" + in) + " --output " + quoted(folder + "/y.npy"));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_TRUE(std::filesystem::exists(folder + "/y.npy"));
  const CommandResult explained =
      heddle_command("explain " + quoted(model) + " --node 0 --show schedule --json --threads 1");
  EXPECT_EQ(explained.status, 0) << explained.err;
  EXPECT_FALSE(Json::parse(explained.out).is_null());
  const CommandResult exported =
      heddle_command("export " + quoted(model) + " -o " + quoted(folder + "/out"));
  EXPECT_EQ(exported.status, 0) << exported.err;
  std::filesystem::current_path(before);
  EXPECT_FALSE(std::filesystem::exists(folder_ + "/pwned"));
}

// A disk that fills up is an error of one line, and no half of a file stays.
TEST_F(ModelCommands, AFullDiskLeavesNothingBehind) {
  const std::string full = "ulimit -f 8; trap '' XFSZ;";  // files of at most 4 KiB
  for (const std::string& command :
       {"export " + kDigits + ":batch=2 -o " + folder_ + "/out",
        "run " + kDigits + " --batch 128 --time 0 --threads 1 --output " + folder_ +
            "/out/y.npy"}) {
    std::filesystem::create_directories(folder_ + "/out");
    const CommandResult r = heddle_command(command, full);
    EXPECT_EQ(r.status, 1) << command;
    EXPECT_THAT(r.err, HasSubstr("error: cannot write '" + folder_ + "/out/")) << command;
    EXPECT_TRUE(std::filesystem::is_empty(folder_ + "/out")) << command;
  }
}

TEST_F(ModelCommands, RunTakesABatch) {
  const CommandResult r = heddle_command("run " + kDigits + " --batch 3 --time 0 --threads 1");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("images f32[3, 1, 8, 8]"));
  EXPECT_THAT(r.out, HasSubstr("f32[3, 10]"));
  const CommandResult two = heddle_command("run " + kDigits + " --batch 3 --dims batch=2 --time 0");
  EXPECT_EQ(two.status, 2);
  EXPECT_THAT(two.err, HasSubstr("give one of the two"));
  EXPECT_EQ(heddle_command("run " + kDigits + " --batch 0").status, 2);
}

TEST_F(ModelCommands, DimensionsMayStandBehindTheName) {
  const std::string run = " --time 0 --threads 1";
  const CommandResult one = heddle_command("run " + kDigits + ":batch=3 --dtype bf16" + run);
  ASSERT_EQ(one.status, 0) << one.err;
  EXPECT_THAT(one.out, HasSubstr("images f32[3, 1, 8, 8]"));
  const CommandResult range = heddle_command("run " + kDigits + ":batch=1..4 --sizes 3" + run);
  ASSERT_EQ(range.status, 0) << range.err;
  EXPECT_THAT(range.out, HasSubstr("sizes   batch = 3\n"));
}

TEST_F(ModelCommands, ADimensionThatTheFileLacksIsNamed) {
  for (const char* command : {"run", "explain", "profile", "tune", "export"}) {
    for (const char* dims : {" --dims bach=1", ":bach=1", " --dims bach=1..8"}) {
      std::string line = std::string(command) + " " + kDigits + dims;
      if (command == std::string("export")) line += " -o " + folder_ + "/out";
      if (command == std::string("tune")) line += " --log " + folder_ + "/log.jsonl";
      const CommandResult r = heddle_command(line);
      EXPECT_EQ(r.status, 2) << line << r.out;
      EXPECT_THAT(r.err, HasSubstr("no input has a dimension 'bach'")) << line;
      EXPECT_THAT(r.err, HasSubstr("did you mean 'batch'?")) << line;
    }
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(ModelCommands, ProfileShowsNodesAndTheTasksAsTuningMeasuresThem) {
  const CommandResult r =
      heddle_command("profile " + kDigits + ":batch=2 --threads 1 --time 0.05 --tasks");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("in network"));
  for (size_t at = r.out.find(" %"); at != std::string::npos; at = r.out.find(" %", at + 1)) {
    const size_t begin = r.out.find_last_not_of("0123456789.", at - 1) + 1;
    EXPECT_LE(std::stod(r.out.substr(begin, at - begin)), 100) << r.out;
  }
  EXPECT_THAT(r.out, HasSubstr("the tasks as tuning measures them: "));
  const CommandResult json =
      heddle_command("profile " + kDigits + ":batch=2 --threads 1 --time 0.05 --json");
  ASSERT_EQ(json.status, 0) << json.err;
  EXPECT_THAT(json.out, HasSubstr("\"in_network_s\""));
  EXPECT_THAT(r.out, HasSubstr("as tuned"));
  EXPECT_THAT(r.out, HasSubstr("than their nodes in calls of the network in turns with them"));
  EXPECT_THAT(json.out, ::testing::Not(HasSubstr("as_tuned_s")));
  EXPECT_EQ(heddle_command("profile nothing:1").status, 2);
}

TEST_F(ModelCommands, AuditShowsWhereTimeIsLost) {
  const std::string audit = "audit " + kDigits + " --threads 1 --time 0.05 --worst 2 ";
  const CommandResult json = heddle_command(audit + "--dims batch=2 --choices 1s --json -q");
  ASSERT_EQ(json.status, 0) << json.err;
  EXPECT_EQ(json.err, "");
  const Json found = Json::parse(json.out).at("audits").at(0);
  ASSERT_GT(found.at("kernels").size(), 1u);
  double before = found.at("kernels").at(0).at("lost_s").as_double();
  for (const Json& kernel : found.at("kernels").elements()) {
    EXPECT_LE(kernel.at("lost_s").as_double(), before);
    before = kernel.at("lost_s").as_double();
    EXPECT_FALSE(kernel.at("template").as_string().empty());
    EXPECT_FALSE(kernel.at("provenance").as_string().empty());
  }
  EXPECT_GT(found.at("choices").at("tried").size(), 0u);

  const CommandResult text = heddle_command(audit + "--dims batch=1..8 --sizes 1,5");
  ASSERT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("at batch = 5:\n"));
  EXPECT_THAT(text.out, HasSubstr("chosen by: "));
  EXPECT_THAT(text.err, HasSubstr("timing the nodes"));

  write_file_atomic(folder_ + "/audit.json", json.out);
  const CommandResult page = heddle_command("report --audit " + folder_ + "/audit.json -o -");
  ASSERT_EQ(page.status, 0) << page.err;
  EXPECT_THAT(page.out, HasSubstr("Where networks lose time"));
  EXPECT_THAT(page.out, HasSubstr("<svg"));

  EXPECT_THAT(heddle_command(audit + "--dims batch=2 --sizes 2").err,
              HasSubstr("no dimension has one"));
  EXPECT_THAT(heddle_command(audit + "--dims batch=1..8 --choices 1s").err,
              HasSubstr("a network of one size"));
  EXPECT_THAT(heddle_command("report --audit " + kDigits).err, HasSubstr("heddle audit"));
}

TEST_F(ModelCommands, RunTakesAndWritesArrays) {
  const std::string in = folder_ + "/x.npy", out = folder_ + "/y.npy";
  NDArray::random({2, 1, 8, 8}, f32, 7, 0, 1).save(in);
  const std::string command =
      "run " + kDigits + " --dims batch=2 --time 0 --threads 1 --output " + out;
  const CommandResult r = heddle_command(command + " --input images=" + in);
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("images f32[2, 1, 8, 8], of " + in));
  EXPECT_THAT(r.out, HasSubstr("in " + out));
  const NDArray first = NDArray::load(out);
  EXPECT_EQ(first.shape(), (Extents{2, 10}));
  // Random inputs are said to be random, and give something else.
  const CommandResult other = heddle_command(command);
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_THAT(other.out, HasSubstr("random"));
  EXPECT_GT(max_abs_diff(first, NDArray::load(out)), 1e-3);
}

TEST_F(ModelCommands, RunTakesAnInputThatNothingReads) {
  testing::ModelParts p;
  p.inputs = {testing::value_info("x", {"2"}), testing::value_info("spare", {"5"})};
  p.nodes = {testing::node("n", "Neg", {"x"}, {"y"})};
  p.outputs = {testing::value_info("y", {"2"})};
  write_file_atomic(folder_ + "/m.onnx", testing::model_bytes(p));
  NDArray::zeros({5}, f32).save(folder_ + "/spare.npy");
  const std::string command = "run " + folder_ + "/m.onnx --time 0 --threads 1";
  EXPECT_EQ(heddle_command(command).status, 0);
  const CommandResult r = heddle_command(command + " --input spare=" + folder_ + "/spare.npy");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("spare: no output depends on it"));
  EXPECT_EQ(heddle_command(command + " --input spar=" + folder_ + "/spare.npy").status, 2);
}

// Nothing but the states has the rows of the past: the length of a call is an input that nothing reads.
TEST_F(ModelCommands, StatesMayBeAllThatGrows) {
  testing::ModelParts p;
  p.inputs = {testing::value_info("past", {"1", "2", "past", "4"}),
              testing::value_info("k", {"1", "2", "1", "4"})};
  p.initializers = {testing::tensor("axis", {1}, std::vector<int64_t>{2})};
  p.nodes = {testing::node("c", "Concat", {"past", "k"}, {"present"},
                           {testing::attribute("axis", int64_t{2})}),
             testing::node("s", "ReduceSum", {"present", "axis"}, {"y"})};
  p.outputs = {testing::value_info("y", {"1", "2", "1", "4"}),
               testing::value_info("present", {"1", "2", "total", "4"})};
  write_file_atomic(folder_ + "/m.onnx", testing::model_bytes(p));
  const std::string model = folder_ + "/m.onnx:past=1..8 --states --threads 1 --time 0";
  const CommandResult r = heddle_command("run " + model + " --sizes 3,9");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("total u8[9], random"));
}

TEST_F(ModelCommands, OneBuildRunsAtAllSizesOfARange) {
  const std::string out = folder_ + "/range.npy", alone = folder_ + "/alone.npy",
                    in = folder_ + "/x.npy";
  NDArray::random({3, 1, 8, 8}, f32, 7, 0, 1).save(in);
  const std::string run = "run " + kDigits + " --time 0 --threads 1 ";
  const CommandResult sizes = heddle_command(run + "--dims batch=1..8 --sizes 1,5,8");
  ASSERT_EQ(sizes.status, 0) << sizes.err;
  for (const char* part : {"sizes   batch = 1\n", "f32[5, 10]: ", "sizes   batch = 8\n"})
    EXPECT_THAT(sizes.out, HasSubstr(part));
  // The file of an input gives the size.
  const std::string files = " --input images=" + in + " --output ";
  ASSERT_EQ(heddle_command(run + "--dims batch=1..8" + files + out).status, 0);
  ASSERT_EQ(heddle_command(run + "--dims batch=3" + files + alone).status, 0);
  EXPECT_EQ(NDArray::load(out).shape(), (Extents{3, 10}));
  EXPECT_LT(max_abs_diff(NDArray::load(out), NDArray::load(alone)), 1e-4);

  const CommandResult costs = heddle_command("explain " + kDigits + ":batch=1 --threads 1");
  EXPECT_THAT(costs.out, HasSubstr("what each costs more the other way"));
  EXPECT_THAT(costs.out, HasSubstr("-channels_last@8x8"));
  const CommandResult explained = heddle_command("explain " + kDigits + ":batch=1..64");
  ASSERT_EQ(explained.status, 0) << explained.err;
  EXPECT_THAT(explained.out, HasSubstr("kernels by sizes"));
  EXPECT_THAT(explained.out, HasSubstr("batch = 8"));
  EXPECT_THAT(explained.out, HasSubstr("batch 9 to 64"));
  const std::string profile = "profile " + kDigits + " --time 0.01 ";
  const CommandResult at_sizes = heddle_command(profile + "--dims batch=1..8 --sizes 1,5");
  ASSERT_EQ(at_sizes.status, 0) << at_sizes.err;
  EXPECT_THAT(at_sizes.out, HasSubstr("at batch = 1:\n"));
  EXPECT_THAT(at_sizes.out, HasSubstr("at batch = 5:\n"));
  EXPECT_THAT(at_sizes.out, HasSubstr("f32[batch,10] "));
  EXPECT_THAT(heddle_command(profile + "--dims batch=2 --sizes 2").err,
              HasSubstr("no dimension has one"));
  EXPECT_THAT(heddle_command(profile + "--dims batch=1..8 --tasks").err,
              HasSubstr("a network of one size"));
}

TEST_F(ModelCommands, ExplainsOneNodeAsASubject) {
  const std::string explain = "explain " + kDigits + ":batch=1 --threads 1 ";
  const CommandResult dag = heddle_command(explain + "--node 0 --show dag");
  ASSERT_EQ(dag.status, 0) << dag.err;
  EXPECT_THAT(dag.out, HasSubstr("output"));
  const CommandResult gpu = heddle_command(explain + "--node 1 --target 'cuda -gpu=h200' --json");
  ASSERT_EQ(gpu.status, 0) << gpu.err;
  EXPECT_THAT(Json::parse(gpu.out).at("subject").as_string(), HasSubstr("node 1, "));
  EXPECT_THAT(Json::parse(gpu.out).at("cuda").as_string(), HasSubstr("__global__"));
  const auto error = [](const std::string& arguments) {
    const CommandResult r = heddle_command(arguments);
    EXPECT_EQ(r.status, 2) << r.out;
    return r.err;
  };
  EXPECT_THAT(error(explain + "--node 99"), HasSubstr("its nodes are 0 to"));
  EXPECT_THAT(error(explain + "--node 0 --show times"), HasSubstr("heddle profile"));
  EXPECT_THAT(error(explain + "--show dag"), HasSubstr("--node"));
  EXPECT_THAT(error("explain matmul:8x8x8 --node 0"), HasSubstr("has no nodes"));
}

TEST_F(ModelCommands, TuningARangeRacesItsKernelsAndRecordsThem) {
  const std::string model = kDigits + ":batch=1..8", log = folder_ + "/digits.jsonl",
                    json = folder_ + "/digits.json", page = folder_ + "/digits.html";
  const CommandResult tuned = heddle_command(
      "tune " + model + " --threads 1 --budget 2s --no-warm-start -q --sizes '1*5,7' " +
      "--max-kernels 1 --log " + log + " --json " + json);
  // A busy machine may measure no candidate in time, which is status 1. The kernels race anyway.
  ASSERT_NE(tuned.status, 2) << tuned.err;
  const CommandResult explained =
      heddle_command("explain " + model + " --threads 1 --json", "HEDDLE_LOG_FILE=" + log);
  ASSERT_EQ(explained.status, 0) << explained.err;
  const Json families = Json::parse(explained.out).at("families");
  EXPECT_EQ(families, Json::parse(read_file(json)).at("families"));
  ASSERT_GE(families.size(), 2u);
  for (const Json& task : families.elements()) {
    EXPECT_EQ(task.at("family").at("variants").size(), 1u);
    EXPECT_EQ(task.at("family").at("rows").at(0).at("weight").as_double(), 5);
    EXPECT_EQ(task.at("family").at("rows").at(1).at("sizes").at(0).as_int(), 7);
  }
  EXPECT_THAT(heddle_command("explain " + model + " --threads 1", "HEDDLE_LOG_FILE=" + log).out,
              HasSubstr("kernels of a race"));
  const std::string drawn = ", " + std::to_string(families.size()) + " families";
  EXPECT_THAT(heddle_command("report " + log + " -o " + page).out, HasSubstr(drawn));
  EXPECT_THAT(heddle_command("report --family " + json + " -o " + page).out, HasSubstr(drawn));
  const auto error = [](const std::string& arguments) {
    const CommandResult r = heddle_command(arguments);
    EXPECT_EQ(r.status, 2) << r.out;
    return r.err;
  };
  EXPECT_THAT(error("explain " + model + " --threads 1 --json"), HasSubstr("--race"));
  EXPECT_THAT(error("explain " + kDigits + ":batch=1 --race 1"), HasSubstr("has none"));
  EXPECT_THAT(error("tune " + kDigits + ":batch=1 --sizes 1"),
              HasSubstr("give a dimension a range"));
}

TEST_F(ModelCommands, RunInAnotherPrecisionIsNear) {
  const std::string run = "run " + kDigits + " --dims batch=1 --time 0 --threads 1 --output ";
  const std::string exact = folder_ + "/f32.npy", near = folder_ + "/bf16.npy";
  ASSERT_EQ(heddle_command(run + exact).status, 0);
  const CommandResult r = heddle_command(run + near + " --dtype bf16");
  ASSERT_EQ(r.status, 0) << r.err;
  const double difference = max_abs_diff(NDArray::load(exact), NDArray::load(near));
  EXPECT_GT(difference, 0);
  EXPECT_LT(difference, 1);
}

TEST_F(ModelCommands, MistakesAreExplainedAndNothingIsWritten) {
  const std::string out = folder_ + "/y.npy", in = folder_ + "/x.npy";
  NDArray::zeros({3, 1, 8, 8}, f32).save(in);
  const std::string run = "run " + kDigits + " --time 0 --output " + out + " ";
  for (const auto& [arguments, part] : std::vector<std::pair<std::string, std::string>>{
           {"", "--dims batch=1"},
           {"--dims batch", "NAME=EXTENT"},
           {"--dims batch=1..x", "NAME=EXTENT"},
           {"--dims batch=1..8 --sizes 1,2", "--output writes one file"},
           {"--dims batch=1..8 --sizes 9", "1 to 8"},
           {"--dims batch=1..8 --sizes 2x2", "a whole number for each range"},
           {"--dims batch=1..2 --input images=" + in, "1 to 2"},
           {"--dims batch=2 --sizes 2", "no dimension has one"},
           {"--dims batch=2 --input images=" + in, "f32[3, 1, 8, 8]"},
           {"--dims batch=2 --input image=" + in, "images"},
           {"--dims batch=2 --dtype i8", "f32, f16 or bf16"}}) {
    const CommandResult r = heddle_command(run + arguments);
    EXPECT_EQ(r.status, 2) << arguments << r.out;
    EXPECT_THAT(r.err, HasSubstr(part)) << arguments;
    EXPECT_FALSE(std::filesystem::exists(out));
  }
}

TEST_F(ModelCommands, ExplainShowsTheNodes) {
  const CommandResult r = heddle_command("explain " + kDigits + ":batch=4");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("f32[4,8,8,16]"));
  EXPECT_EQ(heddle_command("explain " + kDigits + ":batch=4 --show loops").status, 2);
}

// What the table of choices names for --passes changes the choice, and the table then names the way
// back.
TEST_F(ModelCommands, ExplainNamesWhatPassesTakesToChangeAChoice) {
  const std::string explain = "explain " + kDigits + ":batch=4 --threads 1";
  const CommandResult r = heddle_command(explain);
  ASSERT_THAT(r.out, HasSubstr("\n-channels_last@4x4    on "));
  const CommandResult changed = heddle_command(explain + " --passes=-channels_last@4x4");
  EXPECT_THAT(changed.out, HasSubstr("\nchannels_last@4x4     off "));
}

TEST_F(ModelCommands, AFileThatDoesNotExistEndsEachCommandWithTwo) {
  for (const char* command : {"run", "explain", "profile", "tune", "export -o out"}) {
    for (const char* dims : {"", ":batch=1", " --dims batch=1"}) {
      const CommandResult r = heddle_command(std::string(command) + " " + source_dir() +
                                             "/tutorials/data/digit.onnx" + dims);
      EXPECT_EQ(r.status, 2) << command << dims;
      EXPECT_THAT(r.err, HasSubstr("did you mean 'digits.onnx'?")) << command << dims;
    }
  }
}

TEST_F(ModelCommands, TheExportedLibraryKeepsTheNamesOfTheFile) {
  const CommandResult r = heddle_command("export " + kDigits + ":batch=1 -o " + folder_);
  ASSERT_EQ(r.status, 0) << r.err;
  const std::string header = read_file(folder_ + "/digits.h");
  EXPECT_THAT(header, HasSubstr("0  images  f32[1, 1, 8, 8]"));
  EXPECT_THAT(header, HasSubstr("0  logits  f32[1, 10]"));
}

}  // namespace
}  // namespace heddle
