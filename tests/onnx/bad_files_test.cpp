// Invalid files: a User error that names the place, never a crash, and nothing is written.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <random>

#include "heddle/onnx/import.h"
#include "heddle/support/error.h"
#include "onnx/file/graph.h"
#include "onnx/model_builder.h"

namespace heddle::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

ModelParts right_model() {
  ModelParts p;
  p.inputs = {value_info("x", {"2", "3"})};
  p.outputs = {value_info("y", {"2", "2"})};
  p.initializers = {tensor("w", {3, 2}, std::vector<float>{1, 2, 3, 4, 5, 6})};
  p.nodes = {node("product", "MatMul", {"x", "w"}, {"xw"}), node("act", "Relu", {"xw"}, {"y"})};
  return p;
}

std::string message_of_file(const std::string& path) {
  try {
    import_onnx(path);
  } catch (const Error& e) {
    EXPECT_NE(e.kind, ErrorKind::Internal) << e.what();
    return e.message;
  }
  return "nothing was thrown";
}

std::string message_of(const std::string& bytes) {
  const ModelFolder folder("bad");
  const std::string path = folder.write("bad.onnx", bytes);
  const std::string message = message_of_file(path);
  // Nothing was written beside it.
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    (void)entry;
    ++files;
  }
  EXPECT_EQ(files, 1);
  if (message != "nothing was thrown") {
    EXPECT_THAT(message, HasSubstr("bad.onnx"));
  }
  return message;
}

std::string message_of(const ModelParts& parts) { return message_of(model_bytes(parts)); }

TEST(OnnxBadFiles, TheModelThatTheOthersComeFromIsRight) {
  EXPECT_EQ(message_of(right_model()), "nothing was thrown");
}

TEST(OnnxBadFiles, NoFileNoContentAndNoModel) {
  EXPECT_THAT(message_of_file("/nowhere/m.onnx"), HasSubstr("cannot read '/nowhere/m.onnx'"));
  EXPECT_THAT(message_of_file("/"), HasSubstr("cannot read '/'"));
  EXPECT_THAT(message_of(std::string()), HasSubstr("no ONNX model, or it is truncated"));
  EXPECT_THAT(message_of("PK\x03\x04 this is an archive"), HasSubstr("no ONNX model"));
  EXPECT_THAT(message_of(std::string(1000, '\0')), HasSubstr("no ONNX model"));
}

TEST(OnnxBadFiles, EveryTruncationIsAnErrorOrHasAllThatMatters) {
  const std::string bytes = model_bytes(right_model());
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_NE(message_of(bytes.substr(0, length)), "nothing was thrown") << length;
  }
}

TEST(OnnxBadFiles, ChangedBytesAreNeverMoreThanAnError) {
  const std::string bytes = model_bytes(right_model());
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string changed = bytes;
    for (int i = 0; i < 1 + round % 3; ++i)
      changed[random() % changed.size()] = static_cast<char>(random() % 256);
    try {
      onnx::import_model(onnx::parse_model(changed, "changed.onnx"), {}, Where::current());
    } catch (const Error& e) {
      EXPECT_NE(e.kind, ErrorKind::Internal) << "round " << round << ": " << e.what();
    }
  }
}

TEST(OnnxBadFiles, Cycles) {
  ModelParts p = right_model();
  p.nodes = {node("one", "Add", {"x", "b"}, {"a"}), node("two", "Relu", {"a"}, {"b"}),
             node("three", "Relu", {"b"}, {"y"})};
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("node 'one' (Add)"), HasSubstr("cycle")));
}

TEST(OnnxBadFiles, MissingInitialisersAndOutputs) {
  ModelParts p = right_model();
  p.initializers.clear();
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("node 'product' (MatMul)"), HasSubstr("'w'")));
  p = right_model();
  p.outputs = {value_info("other", {"2"})};
  EXPECT_THAT(message_of(p), HasSubstr("nothing makes the output 'other'"));
}

TEST(OnnxBadFiles, TwoMakersOfOneValue) {
  ModelParts p = right_model();
  p.nodes.push_back(node("again", "Neg", {"x"}, {"xw"}));
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("node 'again' (Neg)"), HasSubstr("'xw'")));
}

TEST(OnnxBadFiles, NegativeAndHugeDimensions) {
  ModelParts p = right_model();
  p.initializers = {tensor("w", {-3, 2}, std::vector<float>{1})};
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("initialiser 'w'"), HasSubstr("negative")));
  p.initializers = {tensor("w", {int64_t{1} << 40, int64_t{1} << 40}, std::vector<float>{1})};
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("initialiser 'w'"), HasSubstr("memory")));
  p = right_model();
  p.inputs = {value_info("x", {"-7", "3"})};
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("'x'"), HasSubstr("-7")));
  p.inputs = {value_info("x", {"0", "3"})};
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("'x'"), HasSubstr("extent 0")));
}

/// The peak of this process's memory, in MiB.
int64_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss / 1024;
}

// A few bytes of a file that ask for terabytes: an error, or a declaration that is only refused
// memory when it runs.
TEST(OnnxBadFiles, SmallFilesDoNotTakeTerabytes) {
  const auto one_node = [](const std::string& op, const std::vector<int64_t>& sizes) {
    ModelParts p = right_model();
    p.initializers = {tensor("sizes", {static_cast<int64_t>(sizes.size())}, sizes)};
    p.nodes = {op == "ConstantOfShape" ? node("bomb", op, {"sizes"}, {"y"})
                                       : node("bomb", op, {"x", "sizes"}, {"y"})};
    return p;
  };
  constexpr int64_t kMany = int64_t{1} << 20;
  std::vector<std::pair<std::string, ModelParts>> bombs;
  bombs.emplace_back("constant", one_node("ConstantOfShape", {kMany, kMany}));
  bombs.emplace_back("overflow", one_node("ConstantOfShape", {kMany << 20, kMany << 20}));
  bombs.emplace_back("expand", one_node("Expand", {kMany, kMany, 2, 3}));
  bombs.emplace_back("tile", one_node("Tile", {kMany, kMany}));
  bombs.emplace_back("pad", one_node("Pad", {0, 0, kMany, kMany}));
  ModelParts p = right_model();
  p.inputs = {value_info("x", {"1099511627776", "3"})};
  bombs.emplace_back("input", p);
  p = right_model();
  p.initializers = {tensor("zero", {}, std::vector<int64_t>{0}),
                    tensor("end", {}, std::vector<int64_t>{kMany << 20}),
                    tensor("one", {}, std::vector<int64_t>{1})};
  p.nodes = {node("bomb", "Range", {"zero", "end", "one"}, {"y"})};
  bombs.emplace_back("range", p);
  for (const auto& [what, model] : bombs) {
    const int64_t before = peak_memory();
    message_of(model);
    EXPECT_LT(peak_memory() - before, 256) << what;
  }
}

TEST(OnnxBadFiles, ShortWeights) {
  ModelParts p = right_model();
  p.initializers = {tensor("w", {3, 2}, std::vector<float>{1, 2, 3})};
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("initialiser 'w' has 12 bytes"), HasSubstr("24")));
  p.initializers = {tensor_header("w", kFloat, {3, 2})};
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("initialiser 'w' has 0 values"), HasSubstr("6")));
}

TEST(OnnxBadFiles, WrongTypesAndShapes) {
  ModelParts p = right_model();
  p.nodes[1] = node("act", "Add", {"xw", "k"}, {"y"});
  p.initializers.push_back(tensor("k", {2}, std::vector<int64_t>{1, 2}));
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("node 'act' (Add)"), HasSubstr("f32 and i64")));
  p = right_model();
  p.initializers = {tensor("w", {4, 2}, std::vector<float>(8, 1))};
  EXPECT_THAT(message_of(p), HasSubstr("node 'product' (MatMul)"));
  p = right_model();
  p.inputs = {value_info("x", {"2", "3"}, kString)};
  EXPECT_THAT(message_of(p), HasSubstr("strings"));
}

TEST(OnnxBadFiles, MissingInputsAndAttributesOfAnotherType) {
  ModelParts p = right_model();
  p.nodes[1] = node("act", "Concat", {"xw", "xw"}, {"y"});
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("node 'act' (Concat)"), HasSubstr("'axis'")));
  p.nodes[1] = node("act", "Concat", {"xw", "xw"}, {"y"}, {attribute("axis", 1.0f)});
  EXPECT_THAT(message_of(p), HasSubstr("attribute 'axis' is not an integer"));
  p.nodes[1] = node("act", "Concat", {"xw", "xw"}, {"y"}, {attribute("axis", int64_t{5})});
  EXPECT_THAT(message_of(p), HasSubstr("axis 5 does not exist"));
  p.nodes[1] = node("act", "Add", {"xw"}, {"y"});
  EXPECT_THAT(message_of(p), HasSubstr("node 'act' (Add)"));
}

TEST(OnnxBadFiles, DivisionsOfIntegersByZero) {
  for (const char* op : {"Div", "Mod"}) {
    for (const bool known : {false, true}) {
      ModelParts p;
      p.inputs = {value_info("x", {"2"}, kInt64)};
      p.outputs = {value_info("y", {"2"}, kInt64)};
      p.initializers = {tensor("a", {2}, std::vector<int64_t>{4, 2}),
                        tensor("b", {2}, std::vector<int64_t>{2, 0})};
      p.nodes = {node("split", op, {known ? "a" : "x", "b"}, {"y"})};
      EXPECT_THAT(message_of(p), AllOf(HasSubstr("node 'split'"), HasSubstr("by 0, which 'b'")));
    }
  }
}

TEST(OnnxBadFiles, AllUnsupportedOperatorsAreNamedAtOnce) {
  ModelParts p = right_model();
  p.nodes[1] = node("act", "Frobnicate", {"xw"}, {"y"});
  p.nodes.push_back(node("", "Swizzle", {"y"}, {"z"}, {}, "com.else"));
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("node 'act' (Frobnicate)"),
                                   HasSubstr("the node of 'z' (Swizzle) of domain 'com.else'")));
}

TEST(OnnxBadFiles, NodesThatFailAreNamedTogether) {
  ModelParts p = right_model();
  p.nodes.push_back(node("left", "Concat", {"x"}, {"l"}));
  p.nodes.push_back(node("right", "Flatten", {"x"}, {"r"}, {attribute("axis", int64_t{9})}));
  p.outputs.push_back(value_info("l", {"2"}));
  p.outputs.push_back(value_info("r", {"2"}));
  EXPECT_THAT(message_of(p), AllOf(HasSubstr("2 nodes"), HasSubstr("node 'left' (Concat)"),
                                   HasSubstr("node 'right' (Flatten)")));
}

TEST(OnnxBadFiles, FunctionsThatCallThemselves) {
  ModelParts p = right_model();
  Message f;
  f.text(1, "Self").text(10, "ours").text(4, "a").text(5, "b");
  f.message(7, node("again", "Self", {"a"}, {"b"}, {}, "ours"));
  p.functions = {f};
  p.nodes[1] = node("act", "Self", {"xw"}, {"y"}, {}, "ours");
  EXPECT_THAT(message_of(p), HasSubstr("without end"));
}

TEST(OnnxBadFiles, FunctionsWithoutNodesThatDoubleAreCounted) {
  ModelParts p = right_model();
  for (int i = 0; i < 31; ++i) {
    const std::string next = "f" + std::to_string(i + 1);
    Message f;
    f.text(1, "f" + std::to_string(i)).text(10, "ours").text(4, "a").text(5, "b");
    if (i < 30) {
      f.message(7, node("one", next, {"a"}, {"c"}, {}, "ours"));
      f.message(7, node("two", next, {"a"}, {"b"}, {}, "ours"));
    }
    p.functions.push_back(f);
  }
  p.nodes[1] = node("act", "f0", {"xw"}, {"y"}, {}, "ours");
  EXPECT_THAT(message_of(p), HasSubstr("without end"));
}

TEST(OnnxBadFiles, ABlockWhoseSquareIsNoExtent) {
  ModelParts p = right_model();
  p.inputs[0] = value_info("x", {"1", "1", "4", "4"});
  p.nodes = {node("d", "DepthToSpace", {"x"}, {"y"}, {attribute("blocksize", int64_t{1} << 33)})};
  EXPECT_THAT(message_of(p), HasSubstr("the block size is 8589934592"));
}

class ExternalData : public ::testing::Test {
 protected:
  std::string message(const std::string& location, const std::string& offset = "0",
                      const std::string& length = "24") {
    ModelParts p = right_model();
    p.initializers = {external_tensor("w", {3, 2}, location, offset, length)};
    return message_of_file(folder_.write("model/m.onnx", model_bytes(p)));
  }
  ModelFolder folder_{"external_data"};
};

TEST_F(ExternalData, MustLieInTheFolderOfTheModel) {
  const std::string secret = folder_.write("secret.bin", std::string(24, 's'));
  EXPECT_THAT(message("../secret.bin"), HasSubstr("outside of the model's folder"));
  EXPECT_THAT(message("a/../../secret.bin"), HasSubstr("outside of the model's folder"));
  EXPECT_THAT(message(secret), HasSubstr("outside of the model's folder"));
  std::filesystem::create_symlink(secret, folder_.path() / "model/link.bin");
  EXPECT_THAT(message("link.bin"), HasSubstr("outside of the model's folder"));
  EXPECT_THAT(message("."), HasSubstr("outside of the model's folder"));
}

TEST_F(ExternalData, MustBeThereAndLongEnough) {
  EXPECT_THAT(message("w.bin"), HasSubstr("cannot read"));
  folder_.write("model/w.bin", std::string(24, 'w'));
  EXPECT_EQ(message("w.bin"), "nothing was thrown");
  EXPECT_THAT(message("w.bin", "8"), AllOf(HasSubstr("initialiser 'w'"), HasSubstr("only 24")));
  EXPECT_THAT(message("w.bin", "0", "8"), HasSubstr("initialiser 'w' has 8 bytes"));
  EXPECT_THAT(message("w.bin", "-8"), HasSubstr("offset '-8'"));
  EXPECT_THAT(message("w.bin", "9223372036854775807"), HasSubstr("only 24"));
  EXPECT_THAT(message(""), HasSubstr("without a place"));
}

// The import of a pipe that nobody writes to must not wait for a writer.
TEST_F(ExternalData, MustBeARegularFile) {
  std::filesystem::create_directories(folder_.path() / "model");
  ASSERT_EQ(::mkfifo((folder_.path() / "model/pipe.bin").c_str(), 0600), 0);
  EXPECT_THAT(message("pipe.bin"), AllOf(HasSubstr("pipe.bin"), HasSubstr("no regular file")));
  std::filesystem::create_directories(folder_.path() / "model/folder.bin");
  EXPECT_THAT(message("folder.bin"), HasSubstr("no regular file"));
}

}  // namespace
}  // namespace heddle::testing
