// Kernels for GPUs over a range, run by the emulator, which checks every access.
#pragma once

#include <string>
#include <vector>

#include "family/family_testing.h"
#include "heddle/codegen/cuda.h"
#include "heddle/codegen/emulator.h"

namespace heddle::testing {

inline Target gpu(const std::string& name = "a100") { return Target::parse("cuda -gpu=" + name); }

using Sizes = std::vector<SizeValue>;

inline std::string sizes_name(const Sizes& at) {
  std::string text;
  for (const SizeValue& v : at) text += v.size->name + " = " + std::to_string(v.value) + " ";
  return text;
}

/// "" when the program gives what the interpreter gives at these sizes.
inline std::string wrong_at(const GpuProgram& program, const Tensor& result, const Sizes& at,
                            double tolerance) {
  const ComputeDag dag(at_sizes({result}, at).outputs);
  const std::vector<NDArray> arrays = call_arrays(dag);
  try {
    emulate(program, arrays, {.seed = 1});
  } catch (const Error& e) {
    return sizes_name(at) + e.message;
  }
  const std::string d = differs(dag, arrays, tolerance);
  return d.empty() ? d : sizes_name(at) + d;
}

/// "" or the first of `sizes` at which the kernels of `s` are wrong.
inline std::string first_wrong(const Schedule& s, const Family& f,
                               const std::vector<int64_t>& sizes, double tolerance = 1e-4) {
  const GpuProgram program = lower_gpu(s, all_args(s.dag()));
  emit_cuda(program);
  for (const int64_t n : sizes) {
    const std::string d = wrong_at(program, f.result, {{f.n, n}}, tolerance);
    if (!d.empty()) return d;
  }
  return "";
}

inline std::vector<int64_t> every_size() {
  std::vector<int64_t> all;
  for (int64_t n = 1; n <= 257; ++n) all.push_back(n);
  return all;
}

inline const std::vector<int64_t>& few_sizes() {
  static const std::vector<int64_t> few{1, 2, 31, 32, 33, 100, 128, 129, 257};
  return few;
}

}  // namespace heddle::testing
