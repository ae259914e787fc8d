#include "records/upgrade.h"

#include "dag/declaration/declaration.h"
#include "heddle/support/error.h"

namespace heddle::cli {

std::optional<Problem> problem_of(const Record& record) {
  for (const DataType dtype : {f32, f64, f16, bf16, i8, u8, i16, i32, i64}) {
    try {
      Problem p = make_problem(record.subject, dtype);
      if (ComputeDag(p.outputs).structural_hash() == record.structural_hash) return p;
    } catch (const Error& e) {
      if (e.kind != ErrorKind::User) throw;
    }
  }
  return std::nullopt;
}

Declarations::Declarations(const std::vector<Record>& records) {
  for (const Record& r : records) {
    if (!r.declaration.is_null()) by_hash_.emplace(r.structural_hash, &r.declaration);
  }
}

std::optional<Problem> Declarations::of(const Record& record) const {
  const auto at = by_hash_.find(record.structural_hash);
  if (at == by_hash_.end()) return problem_of(record);
  try {
    const Declaration declared = declaration_from_json(*at->second);
    if (declared.dag.structural_hash() != record.structural_hash || declared.args.empty())
      return problem_of(record);
    Problem problem;
    problem.subject = record.subject;
    problem.dtype = declared.args.back().dtype();
    for (const Tensor& t : declared.args)
      (t.op()->is_placeholder() ? problem.inputs : problem.outputs).push_back(t);
    return problem;
  } catch (const Error& e) {  // a log may contain anything
    if (e.kind != ErrorKind::User) throw;
    return problem_of(record);
  }
}

bool complete(Record& record) {
  if (!record.shape_class.empty()) return true;
  const std::optional<Problem> problem = problem_of(record);
  if (!problem) return false;
  const ComputeDag dag(problem->outputs);
  record.shape_class = internal::shape_class_of(dag);
  record.extents = dag.extents();
  return true;
}

}  // namespace heddle::cli
