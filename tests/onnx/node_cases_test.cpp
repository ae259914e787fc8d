// ONNX's own node tests, a few small ones of each operator; and cases of other domains.
#include "onnx/node_cases.h"
#include "source_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle::testing {
namespace {

std::vector<std::string> cases(const std::string& file) {
  return read_cases(source_dir() + "/tests/onnx/data/" + file);
}

void expect_right(const std::string& model, Engine engine) {
  const CaseResult r = run_case(model, engine);
  EXPECT_EQ(r.status, CaseResult::Status::Passed) << r.name << ": " << r.message;
}

TEST(OnnxNodeCases, AllThatAreKeptHereAgreeByTheInterpreter) {
  const std::vector<std::string> all = cases("cases.bin");
  ASSERT_GT(all.size(), 400u);
  for (const std::string& model : all) expect_right(model, Engine::Interpreter);
}

TEST(OnnxNodeCases, SomeOfThemAgreeByKernels) {
  const std::vector<std::string> all = cases("cases.bin");
  for (size_t i = 0; i < all.size(); i += 9) expect_right(all[i], Engine::Kernels);
}

// Results of ONNX Runtime, as make_microsoft_cases.py writes them.
TEST(OnnxNodeCases, OperatorsOfComMicrosoftAgreeWithOnnxRuntime) {
  const std::vector<std::string> all = cases("microsoft_cases.bin");
  ASSERT_GT(all.size(), 80u);
  for (const std::string& model : all) expect_right(model, Engine::Interpreter);
  for (size_t i = 0; i < all.size(); i += 9) expect_right(all[i], Engine::Kernels);
}

}  // namespace
}  // namespace heddle::testing
