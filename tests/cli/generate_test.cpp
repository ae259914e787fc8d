// heddle generate: prompts, folders and what it prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "heddle/onnx/import.h"
#include "heddle/support/json.h"
#include "onnx/toy_decoder.h"
#include "run_command.h"
#include "support/files/file.h"

namespace heddle {
namespace {

using ::testing::HasSubstr;

class GenerateCommand : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!onnx_available()) GTEST_SKIP() << "built without ONNX import";
    file_ =
        testing::decoder_file(folder_, testing::random_weights(5, 0.8), testing::ToyMask::Values);
  }
  CommandResult generate(const std::string& arguments) const {
    return heddle_command("generate " + arguments + " --capacity 20 --chunk 4 --greedy -q");
  }
  static Json tokens_of(const CommandResult& r) { return Json::parse(r.out).at("tokens"); }

  const testing::ModelFolder folder_{"generate"};
  std::string file_;
};

TEST_F(GenerateCommand, PromptsOfDifferentLengthsGiveWhatEachGivesAlone) {
  const CommandResult all =
      generate(file_ + " --prompt-ids 1,2,3,4,5 --prompt-ids 6 --tokens 5 --json");
  ASSERT_EQ(all.status, 0) << all.err;
  EXPECT_EQ(Json::parse(all.out).at("prompt_tokens").as_int(), 6);
  for (const auto& [prompt, sequence] : {std::pair{"1,2,3,4,5", 0}, {"6", 1}}) {
    const CommandResult one = generate(file_ + " --prompt-ids " + prompt + " --tokens 5 --json");
    ASSERT_EQ(one.status, 0) << one.err;
    EXPECT_EQ(tokens_of(one).at(0), tokens_of(all).at(sequence));
  }
  const std::string prompts = folder_.path().string() + "/prompts.txt";
  write_file_atomic(prompts, "1 2 3 4 5\n\n6\n");
  const CommandResult read = generate(file_ + " --prompts " + prompts + " --tokens 5 --json");
  ASSERT_EQ(read.status, 0) << read.err;
  EXPECT_EQ(tokens_of(read), tokens_of(all));
}

TEST_F(GenerateCommand, SequencesMayShareBlocks) {
  const std::string prompts = file_ + " --prompt-ids 1,2,3,4,5 --prompt-ids 6 --tokens 5 --json";
  const CommandResult own = generate(prompts), shared = generate(prompts + " --block 4 --blocks 5");
  ASSERT_EQ(shared.status, 0) << shared.err;
  EXPECT_EQ(tokens_of(shared), tokens_of(own));
  EXPECT_THAT(generate(prompts + " --block 4 --blocks 4").err,
              HasSubstr("5 more tokens need 5 blocks of 4 tokens, and there are 4"));
}

TEST_F(GenerateCommand, AFolderHasTheModelAndHowLongSequencesMayBe) {
  const std::string folder = folder_.path().string();
  const CommandResult named = generate(file_ + " --prompt-ids 1,2 --tokens 3 --json");
  const CommandResult only = generate(folder + " --prompt-ids 1,2 --tokens 3 --json");
  ASSERT_EQ(only.status, 0) << only.err;
  EXPECT_EQ(tokens_of(only), tokens_of(named));
  std::filesystem::copy_file(file_, folder + "/other.onnx");
  EXPECT_THAT(generate(folder + " --prompt-ids 1").err, HasSubstr("has 2 ONNX files"));
  std::filesystem::rename(folder + "/other.onnx", folder + "/model.onnx");
  write_file_atomic(folder + "/config.json", R"({"max_position_embeddings": 20})");
  EXPECT_EQ(generate(folder + " --prompt-ids 1 --tokens 3").status, 0);
  write_file_atomic(folder + "/config.json", R"({"n_positions": 19})");
  const CommandResult longer = generate(folder + " --prompt-ids 1 --tokens 3");
  EXPECT_EQ(longer.status, 2);
  EXPECT_THAT(longer.err, HasSubstr("more than the model was made for, 19"));
  write_file_atomic(folder + "/config.json", "[]");
  EXPECT_THAT(generate(folder + " --prompt-ids 1 --tokens 3").err, HasSubstr("is no JSON object"));
  // What lies around the folder of a model says something only where that folder is named onnx.
  write_file_atomic(folder + "/config.json", "// of another program");
  for (const auto& [name, status] : {std::pair{"inner", 0}, {"onnx", 2}}) {
    std::filesystem::create_directory(folder + "/" + name);
    std::filesystem::copy_file(folder + "/model.onnx", folder + "/" + name + "/model.onnx");
    const CommandResult r = generate(folder + "/" + name + " --prompt-ids 1 --tokens 3");
    EXPECT_EQ(r.status, status) << name << ": " << r.err;
  }
}

TEST_F(GenerateCommand, CallsFitTheCapacityAndEndsTheVocabulary) {
  const CommandResult r = heddle_command("generate " + file_ +
                                         " --capacity 20 --prompt-ids 1,2 --tokens 3 --greedy -q");
  EXPECT_EQ(r.status, 0) << r.err;
  const CommandResult wrong = generate(file_ + " --prompt-ids 1 --tokens 3 --end-ids 7");
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("none of the vocabulary of 7"));
}

TEST_F(GenerateCommand, SequencesEndEachForItself) {
  const std::string prompts = " --prompt-ids 1,2,3,4,5 --prompt-ids 6 --tokens 8 --json";
  const Json all = tokens_of(generate(file_ + prompts + " --end-ids none"));
  // The sequences, up to each token that the first one has.
  for (const size_t at : {size_t{1}, size_t{5}}) {
    const int64_t end = all.at(0).at(at).as_int();
    const Json said =
        Json::parse(generate(file_ + prompts + " --end-ids " + std::to_string(end)).out);
    const Json ended = said.at("tokens");
    for (const size_t b : {size_t{0}, size_t{1}}) {
      size_t length = 0;
      while (length < 8 && (length == 0 || all.at(b).at(length - 1).as_int() != end)) ++length;
      ASSERT_EQ(ended.at(b).size(), length) << "sequence " << b << ", token " << end;
      for (size_t i = 0; i < length; ++i) EXPECT_EQ(ended.at(b).at(i), all.at(b).at(i));
    }
    // What ended sequences would have read is not counted.
    const auto steps = static_cast<double>(said.at("steps_s").size());
    const double drawn = static_cast<double>(ended.at(0).size() + ended.at(1).size());
    EXPECT_NEAR(said.at("tokens_per_s").as_double() * said.at("token_s").as_double() * steps,
                drawn - 2, 1e-6);
  }
  const std::string end = std::to_string(all.at(0).at(size_t{0}).as_int());
  const std::string config = folder_.path().string() + "/config.json";
  write_file_atomic(config, "{\"eos_token_id\": " + end + "}");
  EXPECT_EQ(tokens_of(generate(file_ + prompts)).at(0).size(), 1u);
  write_file_atomic(config, "{\"eos_token_id\": [6000, " + end + "]}");
  EXPECT_EQ(tokens_of(generate(file_ + prompts)).at(0).size(), 1u);
  // What the file for generation says is taken first, where it says something.
  const std::string generation = folder_.path().string() + "/generation_config.json";
  write_file_atomic(generation, "{\"temperature\": 0.6}");
  EXPECT_EQ(tokens_of(generate(file_ + prompts)).at(0).size(), 1u);
  write_file_atomic(generation, "{\"eos_token_id\": 6000}");
  EXPECT_GT(tokens_of(generate(file_ + prompts)).at(0).size(), 1u);
  write_file_atomic(config, "{}");
  write_file_atomic(generation, "{\"eos_token_id\": [" + end + "]}");
  EXPECT_EQ(tokens_of(generate(file_ + prompts)).at(0).size(), 1u);
  EXPECT_EQ(generate(file_ + prompts + " --end-ids x").status, 2);
}

TEST_F(GenerateCommand, WrongPromptsAreErrors) {
  const auto error = [&](const std::string& arguments) {
    const CommandResult r = generate(file_ + " " + arguments);
    EXPECT_EQ(r.status, 2) << arguments;
    return r.err;
  };
  EXPECT_THAT(error(""), HasSubstr("there is no prompt"));
  EXPECT_THAT(error("--prompt-ids 1,x"), HasSubstr("1,x"));
  EXPECT_THAT(error("--prompt-ids 1 --prompt-ids 2 --batch 3"),
              HasSubstr("2 prompts are given for a batch of 3"));
  EXPECT_THAT(error("--prompt-ids 1 --tokens 21"), HasSubstr("--capacity 21"));
  const std::string prompts = folder_.path().string() + "/prompts.txt";
  write_file_atomic(prompts, "1 2\n-3\n");
  EXPECT_THAT(error("--prompts " + prompts), HasSubstr("prompts.txt:2: '-3' is no token"));
}

}  // namespace
}  // namespace heddle
