#include "subjects/model_subject.h"

#include <cmath>

#include "heddle/dag/compute_dag.h"
#include "heddle/support/error.h"

namespace heddle::cli {
namespace {

constexpr const char* kSuffix = ".onnx";

// The end of the path: after the last ".onnx" that is followed by a colon or by nothing.
size_t path_length(const std::string& subject) {
  const size_t suffix = subject.rfind(kSuffix);
  if (suffix == std::string::npos) return 0;
  const size_t end = suffix + std::string(kSuffix).size();
  return end == subject.size() || subject[end] == ':' ? end : 0;
}

}  // namespace

std::map<std::string, int64_t> parse_dims(const std::vector<std::string>& texts) {
  std::map<std::string, int64_t> dims;
  for (const std::string& text : texts) {
    const size_t sign = text.rfind('=');
    const std::string value = sign == std::string::npos ? "" : text.substr(sign + 1);
    const bool digits = !value.empty() && value.size() < 10 &&
                        value.find_first_not_of("0123456789") == std::string::npos;
    if (!digits || sign == 0)
      throw_user_error("'" + text + "' sets no dimension", {},
                       "write NAME=EXTENT, such as batch=1");
    dims[text.substr(0, sign)] = std::stoll(value);
  }
  return dims;
}

bool is_model(const std::string& subject) { return path_length(subject) > 0; }

OnnxModel import_subject(const std::string& subject, DataType dtype) {
  const size_t end = path_length(subject);
  OnnxOptions options;
  options.precision = dtype;
  if (end < subject.size()) options.dims = parse_dims(split_text(subject.substr(end + 1), ','));
  return import_onnx(subject.substr(0, end), options);
}

Problem model_problem(const std::string& subject, DataType dtype) {
  const OnnxModel model = import_subject(subject, dtype);
  Problem problem;
  problem.subject = subject;
  problem.dtype = dtype;
  problem.inputs = model.inputs;
  problem.inputs.insert(problem.inputs.end(), model.constants.begin(), model.constants.end());
  problem.outputs = model.outputs;
  const ComputeDag dag(problem.outputs);
  problem.flops = std::round(dag.total_flops());
  problem.bytes = dag.compulsory_bytes();
  return problem;
}

}  // namespace heddle::cli
