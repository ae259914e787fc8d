// Helpers of the tests of schedules: programs, the text of loops, the text of errors.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/heddle.h"
#include "heddle/ir/print.h"
#include "heddle/ops/ops.h"
#include "schedule/steps/schedule_state.h"

namespace heddle::testing {

/// The message and the help of the Error that `f` throws; its place is left out.
template <class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    std::string kind = e.kind == ErrorKind::Internal ? "INTERNAL " : "";
    return kind + e.message + (e.help.empty() ? "" : "\n  help: " + e.help);
  }
  return "no error";
}

inline std::string loops(const Schedule& s, StageRef st) { return s.state().loops_text(st.id()); }

/// Every input, then every output.
inline std::vector<Tensor> all_args(const ComputeDag& dag) {
  std::vector<Tensor> args = dag.placeholders();
  for (const Tensor& t : dag.outputs()) args.push_back(t);
  return args;
}
inline std::string lowered(const Schedule& s) {
  LoweredProgram p = lower(s, all_args(s.dag()));
  return to_string(p.main) + (p.prepare.body ? to_string(p.prepare) : "");
}

/// C[i, j] = sum(k, A[i, k] * B[k, j]), then D = relu(C + 1).
struct Chain {
  Tensor A, B, C, D;
  explicit Chain(int64_t m = 8, int64_t n = 12, int64_t k = 6) {
    A = placeholder({Expr(m), Expr(k)}, f32, "A");
    B = placeholder({Expr(k), Expr(n)}, f32, "B");
    Axis r = reduce_axis(k, "k");
    C = compute({Expr(m), Expr(n)}, [&](Axis i, Axis j) { return sum(A(i, r) * B(r, j), r); }, "C");
    D = compute({Expr(m), Expr(n)}, [&](Axis i, Axis j) { return max(C(i, j) + 1.f, 0.f); }, "D");
  }
};

/// B = A + 1, C = B * 2.
struct Pair {
  Tensor A, B, C;
  Pair() {
    A = placeholder({8, 12}, f32, "A");
    B = compute({8, 12}, [&](Axis i, Axis j) { return A(i, j) + 1.f; }, "B");
    C = compute({8, 12}, [&](Axis i, Axis j) { return B(i, j) * 2.f; }, "C");
  }
};

}  // namespace heddle::testing
