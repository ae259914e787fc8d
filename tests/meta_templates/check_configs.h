// Whether configs of the CUDA templates compute what was declared, in the sequential form and in
// the emulator.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "heddle/codegen/emulator.h"
#include "lower/lower_testing.h"
#include "meta_templates/cuda_programs.h"
#include "selftest/random_program.h"
#include "selftest/random_schedule.h"

namespace heddle::testing {

inline Target h200() { return Target::parse("cuda -gpu=h200"); }

// Results of f32 may differ by the order of sums, narrow ones by the last place: a function that is
// computed another way may round it to the other side.
inline double tolerance_of_results(const ComputeDag& dag) {
  double most = 1e-4;
  for (const Tensor& t : dag.outputs()) {
    if (t.dtype().element() == f16) most = std::max(most, 1e-3);
    if (t.dtype().element() == bf16) most = std::max(most, 8e-3);
  }
  return most;
}

// What is wrong with `s`; "" if nothing.
inline std::string wrong(const Schedule& s) {
  const std::vector<Tensor> args = all_args(s.dag());
  const LoweredProgram p = lower(s, args);
  std::vector<NDArray> arrays = call_arrays(s.dag()), persistent;
  for (const Buffer& b : p.persistent) persistent.push_back(array_of(b));
  std::vector<NDArray> all = arrays;
  all.insert(all.end(), persistent.begin(), persistent.end());
  interpret(p.main, all);
  const double tolerance = tolerance_of_results(s.dag());
  const std::string d = differs(s.dag(), arrays, tolerance);
  if (!d.empty()) return d;
  // The thread form, which the emulator also searches for races and missing barriers.
  const GpuProgram g = lower_gpu(s, args);
  arrays = call_arrays(s.dag());
  emulate(g, arrays, {.seed = 7});
  const std::string e = differs(s.dag(), arrays, tolerance);
  if (!e.empty()) return "emulated: " + e;
  for (const GpuKernel& k : g.main) {
    const int64_t threads = k.block[0] * k.block[1] * k.block[2];
    if (threads > 1024) return k.name + " has " + std::to_string(threads) + " threads";
    if (k.shared_bytes > 227 << 10) return k.name + " takes too much shared memory";
  }
  return "";
}

inline void check(const std::vector<MemoryBound>& programs, int configs, uint64_t seed) {
  Rng rng(seed);
  const char* only = std::getenv("HEDDLE_ONLY");
  for (const MemoryBound& p : programs) {
    if (only && p.name != only) continue;
    SCOPED_TRACE(p.name);
    const ComputeDag dag(p.outputs);
    const Template t = make_template(dag, h200());
    for (int i = 0; i <= configs; ++i) {
      const Config c = i == 0 ? t.default_config() : selftest::random_config(t, rng);
      SCOPED_TRACE(t.name() + " " + t.config_to_json(c).dump());
      ASSERT_EQ(t.why_invalid(c), "");
      std::string d;
      try {
        d = wrong(t.instantiate(c));
      } catch (const std::exception& e) {
        d = std::string("threw: ") + e.what();
      }
      EXPECT_EQ(d, "");
    }
  }
}

}  // namespace heddle::testing
