// heddle quantize, as a user meets it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "heddle/onnx/import.h"
#include "heddle/runtime/npz.h"
#include "heddle/support/json.h"
#include "run_command.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

const std::string kDigits = source_dir() + "/tutorials/data/digits.onnx";

class QuantizeCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!onnx_available()) GTEST_SKIP() << "built without ONNX import";
    std::filesystem::create_directories(folder_);
    save_npz(samples_, {{"images", NDArray::random({20, 1, 8, 8}, f32, 1, 0, 1)}});
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  CommandResult run(const std::string& arguments) const {
    return heddle_command("quantize " + arguments, "HEDDLE_CACHE=off");
  }

  std::string folder_ = temporary("quantize");
  std::string samples_ = folder_ + "/samples.npz", out_ = folder_ + "/int8.onnx";
};

TEST_F(QuantizeCommand, WritesAModelThatRuns) {
  const CommandResult r = run(kDigits + " --data " + samples_ + " -o " + out_ + " --threads 1");
  ASSERT_EQ(r.status, 0) << r.err;
  EXPECT_THAT(r.out, HasSubstr("relu2"));
  EXPECT_THAT(r.out, HasSubstr("output 'logits'"));
  EXPECT_THAT(r.out, HasSubstr("on 20 samples"));
  EXPECT_EQ(heddle_command("run " + out_ + ":batch=2 --time 0 --threads 1").status, 0);
}

TEST_F(QuantizeCommand, PrintsJson) {
  const CommandResult r = run(kDigits + " --data " + samples_ + " -o " + out_ +
                              " --method percentile --percentile 99 --dtype i8 --per-tensor "
                              "--exclude /conv1 --json");
  // The names of nodes in this file are those of the lesson's exporter.
  const CommandResult named = run(kDigits + " --data " + samples_ + " -o " + out_ +
                                  " --method entropy --dtype i8 --per-tensor --json");
  ASSERT_EQ(named.status, 0) << named.err;
  const Json j = Json::parse(named.out);
  EXPECT_EQ(j.at("samples").as_int(), 20);
  EXPECT_EQ(j.at("outputs").at(0).at("name").as_string(), "logits");
  for (const Json& t : j.at("tensors").elements()) EXPECT_EQ(t.at("zero").as_int(), 0);
  EXPECT_EQ(r.status, 2);
  EXPECT_THAT(r.err, HasSubstr("/conv1"));
}

TEST_F(QuantizeCommand, HostileInputIsAMistake) {
  const std::string to = " -o " + out_;
  const std::string not_npz = folder_ + "/not.npz", other = folder_ + "/other.npz";
  write_file_atomic(not_npz, "PK\3\4 and no archive");
  save_npz(other, {{"pictures", NDArray::zeros({2, 1, 8, 8}, f32)}});
  const std::string model = folder_ + "/bad.onnx";
  write_file_atomic(model, read_file(kDigits).substr(0, 400));
  for (const std::string& line :
       {kDigits + " --data " + not_npz + to, kDigits + " --data " + other + to,
        kDigits + " --data " + folder_ + "/none.npz" + to, model + " --data " + samples_ + to,
        samples_ + " --data " + samples_ + to, kDigits + " --data " + samples_,
        kDigits + " --data " + samples_ + to + " --method best",
        kDigits + " --data " + samples_ + to + " --dtype f16",
        kDigits + " --data " + samples_ + to + " --percentile 7",
        kDigits + " --data " + samples_ + " -o " + folder_ + "/no/folder.onnx"}) {
    const CommandResult r = run(line);
    EXPECT_EQ(r.status, 2) << line << "\n" << r.err;
    EXPECT_THAT(r.err, HasSubstr("error"));
    EXPECT_FALSE(std::filesystem::exists(out_)) << line;
  }
}

}  // namespace
}  // namespace heddle
