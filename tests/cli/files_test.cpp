// Files that a command reads or writes and that are not there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "heddle/onnx/import.h"
#include "run_command.h"
#include "source_dir.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::string kDigits = source_dir() + "/tutorials/data/digits.onnx";

class Files : public ::testing::Test {
 protected:
  void SetUp() override { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string file(const std::string& name) const { return folder_ + "/" + name; }
  bool nothing_is_left() const { return std::filesystem::is_empty(folder_); }
  std::string folder_ = temporary("files");
};

void expect_refused(const std::string& arguments, const std::string& text,
                    const std::string& environment = "") {
  const CommandResult r = heddle_command(arguments, environment);
  EXPECT_EQ(r.status, 2) << arguments << "\n" << r.err;
  EXPECT_THAT(r.out, IsEmpty()) << arguments;
  EXPECT_THAT(r.err, HasSubstr(text)) << arguments;
  EXPECT_THAT(r.err, HasSubstr("  help: ")) << arguments;
}

TEST_F(Files, ThatAreNotThereAreNamedByEachCommand) {
  for (const std::string before :
       {"report ", "report --picks ", "report --family ", "records list ", "records best ",
        "records merge -o o.jsonl ", "records prune --keep 1 -o o.jsonl ",
        "records upgrade -o o.jsonl ", "records train -o o.model ", "records why matmul:8x8x8 ",
        "heuristic train contraction --log ", "heuristic train contraction --records ",
        "heuristic eval contraction --log ", "heuristic eval contraction --tree ",
        "heuristic gen contraction -o o.h --tree ",
        "heuristic explain contraction matmul:8x8x8 --tree "})
    expect_refused(before + file("none.jsonl"), "there is no file '" + file("none.jsonl") + "'");
  expect_refused("report " + folder_, "is a folder, and no file");
  expect_refused("report /no/such/x.jsonl", "no folder /no/such");
  std::ofstream(file("matmul.jsonl")) << "";
  expect_refused("report " + file("matmull.jsonl"), "did you mean 'matmul.jsonl'?");
}

TEST_F(Files, ModelsThatAreNotThereAreNamedByEachCommand) {
  const std::string tune = "tune --log " + file("log.jsonl") + " ",
                    write = "export -o " + file("out") + " ";
  for (const std::string& command :
       {std::string("run "), std::string("explain "), std::string("profile "), tune, write}) {
    for (const char* dims : {"", ":batch=1", ":batch=1..8"})
      expect_refused(command + file("none.onnx") + dims,
                     "there is no file '" + file("none.onnx") + "'");
  }
  if (onnx_available())
    expect_refused("run " + kDigits + ":batch=1 --input images=" + file("x.npy"),
                   "there is no file '" + file("x.npy") + "'");
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Files, AUsersLogThatIsNotThereIsNamedByThoseWhoReadIt) {
  const std::string variable = "HEDDLE_LOG_FILE=" + file("none.jsonl"),
                    text = "HEDDLE_LOG_FILE names '" + file("none.jsonl") + "'";
  for (const std::string& command :
       {std::string("explain matmul:8x8x8"), "export matmul:8x8x8 -o " + file("mm"),
        std::string("bench matmul:1..8x8x8"), std::string("records list"),
        std::string("records best"), std::string("records why matmul:8x8x8"),
        "tune matmul:8x8x8 --log " + file("other.jsonl")})
    expect_refused(command, text, variable);
  // What was found out before the records were needed has been printed.
  for (const std::string& command :
       {std::string("bench matmul:8x8x8 --peers none"), "run " + kDigits + ":batch=1 --time 0"}) {
    if (command.starts_with("run") && !onnx_available()) continue;
    const CommandResult r = heddle_command(command, variable);
    EXPECT_EQ(r.status, 2) << command;
    EXPECT_THAT(r.err, HasSubstr(text)) << command;
  }
  EXPECT_EQ(heddle_command("list", variable).status, 0) << "which reads no records";
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Files, TuningMakesTheUsersLog) {
  const CommandResult r = heddle_command(
      "tune matmul:16x16x16 --budget 5s --trials 4 --round 4 --threads 1 --policy random "
      "--cost-model "
      "random --log " +
          file("own.jsonl"),
      "HEDDLE_LOG_FILE=" + file("own.jsonl"));
  EXPECT_EQ(r.status, 0) << r.err;
  EXPECT_GT(std::filesystem::file_size(file("own.jsonl")), 0u);
}

TEST_F(Files, ALogThatCannotBeMadeIsAMistakeBeforeAnythingIsMeasured) {
  for (const char* subject : {"matmul:8x8x8", "matmul:1..8x8x8"})
    expect_refused(std::string("tune ") + subject + " --log /proc/none.jsonl",
                   "cannot write '/proc/none.jsonl'");
  expect_refused("tune matmul:8x8x8 --log " + file(std::string(300, 'a')), "characters");
  // A log of which nothing came is not left behind.
  expect_refused("tune matmul:8x8x8 --policy odd --log " + file("new.jsonl"),
                 "--policy cannot be 'odd'");
  expect_refused("tune matmul:8x8x8 --cost-model odd --log " + file("new.jsonl"),
                 "--cost-model cannot be 'odd'");
  EXPECT_TRUE(nothing_is_left());
}

TEST_F(Files, RecordsOfARangeThatAreNotWrittenAreReported) {
  const CommandResult r = heddle_command(
      "tune matmul:1..2x8x8 --budget 4s --trials 2 --round 2 --threads 1 --policy random "
      "--cost-model "
      "random --quiet --log /dev/full");
  EXPECT_EQ(r.status, 1);
  EXPECT_THAT(r.err, HasSubstr("records could not be written to /dev/full"));
}

TEST_F(Files, LongNamesAreRefused) {
  const std::string name(5000, 'a');
  expect_refused("export matmul:8x8x8 -o " + file(name), "characters");
  expect_refused("export matmul:1..8x8x8 -o " + file(name), "File name too long");
  EXPECT_TRUE(nothing_is_left());
}

}  // namespace
}  // namespace heddle
