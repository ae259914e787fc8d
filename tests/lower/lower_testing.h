// Helpers of the tests of lowering: a program is interpreted after every pass and compared with the
// interpretation of its declaration.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/codegen/interpreter.h"
#include "heddle/heddle.h"
#include "heddle/ir/print.h"
#include "heddle/ops/ops.h"

namespace heddle::testing {

inline std::vector<Tensor> all_args(const ComputeDag& dag) {
  std::vector<Tensor> args = dag.placeholders();
  for (const Tensor& t : dag.outputs()) args.push_back(t);
  return args;
}

inline NDArray array_of(const Buffer& b) {
  std::vector<int64_t> shape;
  for (const Expr& e : b->shape) shape.push_back(*as_int(e));
  return NDArray::zeros(shape, b->dtype);
}

/// The arguments of a call: random inputs, and outputs with arbitrary contents.
inline std::vector<NDArray> call_arrays(const ComputeDag& dag) {
  std::vector<NDArray> out;
  for (const Tensor& t : dag.placeholders()) {
    out.push_back(NDArray::random(t.extents(), t.dtype(), out.size() + 1));
  }
  for (const Tensor& t : dag.outputs()) out.push_back(NDArray::full(t.extents(), t.dtype(), 77));
  return out;
}

/// The results of the declaration for these arguments.
inline std::vector<NDArray> wanted(const ComputeDag& dag, const std::vector<NDArray>& arrays) {
  std::vector<TensorValue> values;
  std::vector<Tensor> inputs = dag.placeholders();
  for (size_t i = 0; i < inputs.size(); ++i) values.push_back({inputs[i], arrays[i]});
  return interpret(dag.outputs(), values);
}

/// "" when the outputs among `arrays` equal the results of the declaration.
inline std::string differs(const ComputeDag& dag, const std::vector<NDArray>& arrays,
                           double tolerance = 1e-5) {
  std::vector<NDArray> want = wanted(dag, arrays);
  size_t first = arrays.size() - want.size();
  for (size_t o = 0; o < want.size(); ++o) {
    Difference d = compare(arrays[first + o], want[o], tolerance, tolerance);
    if (!d.ok()) return "output " + std::to_string(o) + ": " + describe(d, want[o]);
  }
  return "";
}

/// "" when the program gives the correct result after every pass, else the first pass after which
/// it does not.
inline std::string wrong_after(const Schedule& s) {
  LowerOptions options;
  options.keep_passes = true;
  LoweredProgram p = lower(s, all_args(s.dag()), options);
  for (const PassRecord& pass : p.passes) {
    std::vector<NDArray> arrays = call_arrays(s.dag()), persistent, constants;
    for (const Buffer& b : p.persistent) persistent.push_back(array_of(b));
    if (pass.prepare.body) {
      for (int c : p.constant_args) constants.push_back(arrays[c]);
      constants.insert(constants.end(), persistent.begin(), persistent.end());
      interpret(pass.prepare, constants);
    }
    std::vector<NDArray> all = arrays;
    all.insert(all.end(), persistent.begin(), persistent.end());
    interpret(pass.main, all);
    std::string d = differs(s.dag(), arrays);
    if (!d.empty()) return "after " + pass.name + ", " + d;
  }
  return "";
}

/// The program after the pass of that name (the first of it), or after all of them.
inline std::string text_after(const Schedule& s, const std::string& pass = "") {
  LowerOptions options;
  options.keep_passes = true;
  LoweredProgram p = lower(s, all_args(s.dag()), options);
  std::string out = to_string(p.main) + (p.prepare.body ? to_string(p.prepare) : "");
  for (const PassRecord& r : p.passes) {
    if (r.name != pass) continue;
    return to_string(r.main) + (r.prepare.body ? to_string(r.prepare) : "");
  }
  return out;
}

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

}  // namespace heddle::testing
