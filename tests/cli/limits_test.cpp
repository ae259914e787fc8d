// docs/limits.md: each row of its table has a check here, which fails when the row ceases to be true.
// (The row about systems is checked by tests/configure.)
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <regex>
#include <set>
#include <sstream>

#include "heddle/autodiff/gradient.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/interpreter.h"
#include "heddle/dag/compute_dag.h"
#include "heddle/driver/build.h"
#include "heddle/lower/lower.h"
#include "heddle/network/network.h"
#include "heddle/onnx/import.h"
#include "heddle/ops/ops.h"
#include "onnx/model_builder.h"
#include "run_command.h"
#include "source_dir.h"
#include "support/files/file.h"

namespace heddle {
namespace {

namespace fs = std::filesystem;

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// The files below the folders of the repository that match.
std::vector<std::string> files_with(const std::vector<std::string>& folders,
                                    const std::regex& what) {
  std::vector<std::string> found;
  for (const std::string& folder : folders) {
    for (const auto& entry : fs::recursive_directory_iterator(source_dir() + "/" + folder)) {
      if (entry.is_regular_file() && std::regex_search(read_file(entry.path().string()), what))
        found.push_back(entry.path().string());
    }
  }
  return found;
}

std::string cuda_text(const std::string& subject) {
  const CommandResult r =
      heddle_command("explain " + subject + " --target 'cuda -gpu=h200' --show cuda");
  EXPECT_EQ(r.status, 0) << r.err;
  return r.out;
}

/// The CPUs of which something is shipped: `llvm-<mcpu>.*`.
std::vector<Target> shipped_cpus() {
  std::vector<Target> all;
  for (const auto& entry : fs::directory_iterator(source_dir() + "/tophub")) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("llvm-"))
      all.push_back(Target::parse("llvm -mcpu=" + name.substr(5, name.find('.') - 5)));
  }
  EXPECT_FALSE(all.empty());
  return all;
}

void gradients_of_gathers() {
  const Tensor x = placeholder({50, 16}, f32, "x"), at = placeholder({7}, i64, "at");
  const Tensor dx = gradient(ops::sum(ops::gather(x, at), {0, 1}), x);
  const std::string text =
      emit_cuda(lower_gpu(create_schedule({dx}, Target::parse("cuda -gpu=h200")), {at, dx}));
  EXPECT_THAT(text, HasSubstr("x_grad[")) << "one owner adds to each row";
  EXPECT_THAT(text, Not(HasSubstr("atomic")));
}

void no_package() {
  const std::regex from_index(R"(pip install (-\S+ )*heddle\b)");
  EXPECT_THAT(files_with({"docs", "python", "tutorials"}, from_index), IsEmpty());
  EXPECT_FALSE(std::regex_search(read_file(source_dir() + "/README.md"), from_index));
}

void parts_of_onnx() {
  if (!onnx_available()) GTEST_SKIP() << "built without ONNX import";
  std::vector<std::string> missing;
  for (const OnnxOperator& op : onnx_operators()) {
    if (!op.supported) missing.push_back(op.name);
  }
  EXPECT_THAT(missing, ElementsAre("ImageDecoder", "RegexFullMatch", "StringConcat",
                                   "StringNormalizer", "StringSplit"));
}

// How a node on the input x of 4 elements is refused, or that it is not.
std::string message_of_node(const testing::Message& node) {
  using namespace testing;
  ModelParts p;
  p.inputs = {value_info("x", {"4"})};
  p.outputs = {value_info("y", {})};
  p.nodes = {node, testing::node("last", "Shape", {"found"}, {"y"})};
  const ModelFolder folder("limits");
  return heddle_command("run " + folder.write("m.onnx", model_bytes(p))).err;
}

void lengths_of_onnx() {
  if (!onnx_available()) GTEST_SKIP() << "built without ONNX import";
  EXPECT_THAT(message_of_node(testing::node("find", "NonZero", {"x"}, {"found"})),
              HasSubstr("node 'last' (Shape): the number of elements of dimension 1 of its input"));
  const Tensor boxes = placeholder({1, 2000, 4}), scores = placeholder({1, 1, 2000});
  EXPECT_THROW(ops::non_max_suppression(boxes, scores, {.most = 1025}), Error);
}

void random_numbers() {
  const std::vector<Tensor> two{ops::random_uniform({9}, 1), ops::random_uniform({9}, 1)};
  const std::vector<NDArray> made = interpret(two, {});
  EXPECT_TRUE(compare(made[0], made[1], 0, 0).ok());
}

void loops_of_onnx() {
  if (!onnx_available()) GTEST_SKIP() << "built without ONNX import";
  using namespace testing;
  GraphParts body;
  body.inputs = {value_info("i", {}, kInt64), value_info("on", {}, kBool), value_info("a", {"1"})};
  body.nodes = {node("", "Add", {"a", "a"}, {"b"}), node("", "Equal", {"a", "a"}, {"same"})};
  body.outputs = {value_info("same", {"1"}, kBool), value_info("b", {"1"})};
  ModelParts p;
  p.inputs = {value_info("n", {}, kInt64), value_info("x", {"1"})};
  p.outputs = {value_info("y", {"1"})};
  p.nodes = {node("repeat", "Loop", {"n", "", "x"}, {"y"}, {attribute("body", body)})};
  const ModelFolder folder("limits");
  const auto message = [&] {
    return heddle_command("run " + folder.write("m.onnx", model_bytes(p))).err;
  };
  EXPECT_THAT(message(), HasSubstr("node 'repeat' (Loop): the trip count ('n') depends on the"));
  p.inputs.erase(p.inputs.begin());
  p.initializers = {tensor("n", {}, std::vector<int64_t>{1025})};
  EXPECT_THAT(message(), HasSubstr("it runs more than 1024 iterations"));
}

void gpus() {
  for (const char* target : {"rocm", "metal", "cuda -arch=sm_75 -sms=40"})
    EXPECT_EQ(
        heddle_command(std::string("explain matmul:64x64x64 --target '") + target + "'").status, 2)
        << target;
  EXPECT_EQ(heddle_command("explain matmul:64x64x64 --target 'cuda -arch=sm_80 -sms=108'").status,
            0);
}

void cpus() {
  EXPECT_EQ(heddle_command("explain matmul:64x64x64 --target 'llvm -mcpu=neoverse-v1'").status, 0);
  for (const Target& cpu : shipped_cpus()) EXPECT_TRUE(cpu.is_x86()) << to_string(cpu);
}

void amx_f16() {
  EXPECT_TRUE(Target::parse("llvm -mcpu=graniterapids").has("amx-fp16"));
  for (const Target& cpu : shipped_cpus()) EXPECT_FALSE(cpu.has("amx-fp16")) << to_string(cpu);
}

void tf32() {
  EXPECT_THAT(cuda_text("matmul:1024x1024x1024 --allow-tf32"), Not(HasSubstr("wgmma")));
  EXPECT_THAT(cuda_text("matmul:1024x1024x1024 --allow-tf32"), HasSubstr("mma.sync"));
  EXPECT_THAT(cuda_text("matmul:1024x1024x1024,tb=1 --allow-tf32"), HasSubstr("wgmma"));
}

void grouped_convolutions() {
  const std::string conv = "conv2d:n=32,c=256,h=14,k=256,r=3,pad=1,layout=nhwc";
  EXPECT_THAT(cuda_text(conv + ",groups=4 --dtype f16"), Not(HasSubstr("wgmma")));
  EXPECT_THAT(cuda_text(conv + " --dtype f16"), HasSubstr("wgmma"));
}

void recurrent() {
  const auto nodes = [](int64_t steps) {
    const Tensor x = placeholder({steps, 4, 16}, f32, "x");
    const Tensor w = constant_placeholder({64, 16}, f32, "w"),
                 r = constant_placeholder({64, 16}, f32, "r");
    return Network({ops::lstm(x, {.input = w, .recurrence = r}).state},
                   Target::parse("cuda -gpu=h200"))
        .nodes()
        .size();
  };
  EXPECT_EQ(nodes(9) - nodes(6), nodes(6) - nodes(3));
  EXPECT_GE(nodes(9) - nodes(6), 3U);
}

void records() {
  std::set<std::string> files;
  for (const auto& entry : fs::directory_iterator(source_dir() + "/tophub")) {
    if (entry.path().extension() == ".jsonl") files.insert(entry.path().stem().string());
  }
  EXPECT_EQ(files, (std::set<std::string>{"cuda-h200", "llvm-emeraldrapids", "llvm-znver3"}));
  const std::string tophub = "HEDDLE_TOPHUB=" + source_dir() + "/tophub";
  const CommandResult r = heddle_command(
      "records why matmul:777x333x111 --target 'llvm -mcpu=znver3' --threads 2", tophub);
  EXPECT_THAT(r.out + r.err, HasSubstr("no hit"));
}

void no_release() {
  const CommandResult r = heddle_command("--version");
  EXPECT_TRUE(std::regex_search(r.out, std::regex(R"(\b0\.\d+\.\d+)"))) << r.out;
}

struct Limit {
  const char* title;  ///< as the table has it
  void (*check)();
};
void PrintTo(const Limit& limit, std::ostream* out) { *out << limit.title; }
const Limit kLimits[] = {
    {"Sources of one row of a scatter follow each other on GPUs.", gradients_of_gathers},
    {"No package on PyPI.", no_package},
    {"Parts of ONNX.", parts_of_onnx},
    {"Lengths that the inputs of an ONNX file decide", lengths_of_onnx},
    {"Random operators of ONNX give the same numbers in every call.", random_numbers},
    {"Loops of ONNX files whose iterations differ are unrolled.", loops_of_onnx},
    {"GPUs of other makers, and NVIDIA's below sm_80.", gpus},
    {"CPUs other than x86-64.", cpus},
    {"AMX for f16", amx_f16},
    {"Other systems.", [] {}},
    {"tf32 products whose second operand lies across the sum (K x N)", tf32},
    {"Grouped convolutions on GPUs", grouped_convolutions},
    {"Recurrent layers", recurrent},
    {"Shipped records", records},
    {"No release.", no_release},
};

class LimitsDoc : public ::testing::TestWithParam<Limit> {};
TEST_P(LimitsDoc, HoldsAsThePageSays) { GetParam().check(); }
INSTANTIATE_TEST_SUITE_P(Rows, LimitsDoc, ::testing::ValuesIn(kLimits));

TEST(LimitsDoc, EachRowHasACheck) {
  std::istringstream page(read_file(source_dir() + "/docs/limits.md"));
  std::vector<std::string> rows, checked;
  const std::string begin = "| **";
  for (std::string line; std::getline(page, line);) {
    if (line.starts_with(begin))
      rows.push_back(line.substr(begin.size(), line.find("**", begin.size()) - begin.size()));
  }
  for (const Limit& limit : kLimits) checked.emplace_back(limit.title);
  EXPECT_EQ(rows, checked);
}

}  // namespace
}  // namespace heddle
