// ONNX's own node tests: a few small ones of each operator.
#include "onnx/node_cases.h"
#include "source_dir.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace heddle::testing {
namespace {

const std::vector<std::string>& cases() {
  static const std::vector<std::string> all =
      read_cases(source_dir() + "/tests/onnx/data/cases.bin");
  return all;
}

TEST(OnnxNodeCases, AllThatAreKeptHereAgreeByTheInterpreter) {
  ASSERT_GT(cases().size(), 300u);
  for (const std::string& model : cases()) {
    const CaseResult r = run_case(model, Engine::Interpreter);
    EXPECT_EQ(r.status, CaseResult::Status::Passed) << r.name << ": " << r.message;
  }
}

TEST(OnnxNodeCases, SomeOfThemAgreeByKernels) {
  for (size_t i = 0; i < cases().size(); i += 9) {
    const CaseResult r = run_case(cases()[i], Engine::Kernels);
    EXPECT_EQ(r.status, CaseResult::Status::Passed) << r.name << ": " << r.message;
  }
}

}  // namespace
}  // namespace heddle::testing
