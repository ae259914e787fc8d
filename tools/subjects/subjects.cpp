#include "subjects/subjects.h"

#include <cmath>
#include <limits>

#include "heddle/dag/compute_dag.h"
#include "heddle/support/error.h"
#include "support/edit_distance.h"

namespace heddle::cli {
std::vector<Tensor> Problem::args() const {
  std::vector<Tensor> all = inputs;
  all.insert(all.end(), outputs.begin(), outputs.end());
  return all;
}

NDArray Problem::make_input(size_t i) const {
  const Tensor& t = inputs[i];
  if (i >= ranges.size()) return NDArray::random(t.extents(), t.dtype(), i + 1);
  return NDArray::random(t.extents(), t.dtype(), i + 1, ranges[i].low, ranges[i].high);
}

std::vector<NDArray> Problem::make_inputs() const {
  std::vector<NDArray> arrays;
  for (size_t i = 0; i < inputs.size(); ++i) arrays.push_back(make_input(i));
  return arrays;
}

std::vector<NDArray> Problem::make_outputs() const {
  std::vector<NDArray> arrays;
  for (const Tensor& t : outputs) {
    const double untouched = t.dtype().is_float() ? std::numeric_limits<double>::quiet_NaN() : 77;
    arrays.push_back(NDArray::full(t.extents(), t.dtype(), untouched));
  }
  return arrays;
}

const std::vector<SubjectKind>& subject_kinds() {
  static const std::vector<SubjectKind> all = [] {
    std::vector<SubjectKind> kinds;
    for (auto part :
         {linalg_subjects, conv_subjects, row_subjects, image_subjects, block_subjects}) {
      for (SubjectKind& kind : part()) kinds.push_back(std::move(kind));
    }
    return kinds;
  }();
  return all;
}

const SubjectKind& subject_kind(const std::string& name) {
  std::vector<std::string> names;
  for (const SubjectKind& kind : subject_kinds()) {
    if (kind.grammar.kind == name) return kind;
    names.push_back(kind.grammar.kind);
  }
  std::string hint = did_you_mean(name, names);
  if (!hint.empty()) hint += " ";
  throw_user_error("unknown subject '" + name + "'", {},
                   hint + "`heddle list` shows all; for example matmul:512x512x512");
}

Problem make_problem(const std::string& subject, DataType dtype) {
  const size_t colon = subject.find(':');
  const SubjectKind& kind = subject_kind(subject.substr(0, colon));
  const std::string text = colon == std::string::npos ? "" : subject.substr(colon + 1);
  const Arguments arguments = parse_arguments(kind.grammar, text);
  try {
    Problem problem = kind.declare(arguments, dtype);
    problem.subject = subject;
    problem.dtype = dtype;
    const ComputeDag dag(problem.outputs);
    if (problem.flops == 0) problem.flops = std::round(dag.total_flops());
    problem.bytes = dag.compulsory_bytes();
    return problem;
  } catch (const Error& error) {
    if (error.kind != ErrorKind::User) throw;
    // The line that the error names is one of this program and does not help who typed a subject.
    std::string help = error.help;
    if (help.empty()) help = "write " + kind.grammar.form();
    throw_user_error(subject + " (" + to_string(dtype) + "): " + error.message, {}, help);
  }
}

}  // namespace heddle::cli
