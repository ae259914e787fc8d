// Helpers of the tests of templates for CPUs.
#pragma once

#include <gtest/gtest.h>

#include "selftest/pair.h"

namespace heddle::testing {

// The value of a knob in the static choice; -1: there is no such knob.
inline int64_t chosen(const Template& t, const char* knob) {
  const int i = t.knob_index(knob);
  return i < 0 ? -1 : t.default_config().values[static_cast<size_t>(i)];
}

// Compiled and run in one config.
inline void expect_right(const selftest::RandomProgram& p, const selftest::Case& reference,
                         const Template& t, const Config& config) {
  const std::vector<NDArray> arrays = reference.fresh_arrays();
  selftest::compiled(Target::host())(t.instantiate(config), p.args(), arrays);
  EXPECT_EQ(reference.difference(arrays), "") << p.text << "\n" << t.config_to_json(config).dump();
}

// In a few configs, the static one first.
inline void expect_right(const selftest::RandomProgram& p, uint64_t seed, int configs) {
  const Template t = make_template(ComputeDag(p.outputs), Target::host());
  const selftest::Case reference(p, seed);
  Rng rng(seed);
  for (int i = 0; i < configs; ++i)
    expect_right(p, reference, t, i == 0 ? t.default_config() : selftest::random_config(t, rng));
}

}  // namespace heddle::testing
