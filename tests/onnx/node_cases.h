// ONNX's own node tests, as tests/onnx/make_cases.py writes them.
#pragma once

#include <string>
#include <vector>

namespace heddle::testing {

struct CaseResult {
  enum class Status { Passed, Failed, Unsupported };
  std::string name;
  Status status = Status::Passed;
  std::string message;
};

/// The models of a file of cases.
std::vector<std::string> read_cases(const std::string& path);

enum class Engine { Interpreter, Kernels };
/// Imports a case, runs it, and compares with the arrays in it. Inputs that decide shapes, which
/// the cases leave open, are made constants.
CaseResult run_case(const std::string& model, Engine engine);

}  // namespace heddle::testing
