// Schedules for a GPU that run in the emulator: the static choice, and warp groups by their knobs.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/codegen/cuda.h"
#include "heddle/ops/ops.h"
#include "selftest/pair.h"

namespace heddle::testing {

inline Target h200() { return Target::parse("cuda -gpu=h200"); }

/// An H200 with this number of multiprocessors.
inline Target with_sms(int sms) {
  Target t = h200();
  t.gpu.sms = sms;
  return t;
}

/// A product of m x k and k x n elements, of which the second operand lies along the depth where it
/// is `turned`; with `batch`, that many of them.
inline selftest::RandomProgram product(DataType type, int64_t m, int64_t n, int64_t k,
                                       int64_t batch = 0, bool turned = true) {
  selftest::RandomProgram p;
  const auto shape = [&](int64_t x, int64_t y) {
    return batch > 0 ? Shape{Expr(batch), Expr(x), Expr(y)} : Shape{Expr(x), Expr(y)};
  };
  p.inputs = {placeholder(shape(m, k), type, "A"),
              placeholder(turned ? shape(n, k) : shape(k, n), type, "B")};
  p.outputs = {ops::matmul(p.inputs[0], p.inputs[1], false, turned)};
  p.text =
      to_string(type) + " " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  return p;
}

/// The declared graph, with no record, and tf32 where it serves.
inline AutoSchedulerOptions options() {
  AutoSchedulerOptions o;
  o.use_records = false;
  o.use_alternatives = false;
  o.allow_tf32 = true;
  return o;
}

/// Checks that the emulated kernels of `s` compute what the interpreter does. Returns the kernels.
inline std::string check_emulated(const selftest::RandomProgram& p, const Schedule& s) {
  SCOPED_TRACE(p.text);
  const selftest::Case want(p, 3, s.options().allow_tf32);
  const std::vector<NDArray> arrays = want.fresh_arrays();
  selftest::emulated(5)(s, p.args(), arrays);
  EXPECT_EQ(want.difference(arrays), "");
  return to_string(lower_gpu(s, p.args()));
}

/// The knobs of warp groups.
struct Knobs {
  int64_t tiles = 1, groups = 1, cols = 64, stages = 3, raster = 1, pairs = 0, location = -1;
  int64_t store = 0, waves = 0, turns = 0, exchanged = 0;
};

/// Warp groups of these knobs; other knobs have their defaults.
inline Schedule schedule(const selftest::RandomProgram& p, const Knobs& knobs,
                         const Target& target = h200()) {
  const AutoSchedulerOptionsScope scope(options());
  const Template t = make_template(ComputeDag(p.outputs), target);
  Config c = t.default_config();
  const auto set = [&](const std::string& name, int64_t value) {
    c.values.at(static_cast<size_t>(t.knob_index(name))) = value;
  };
  set("unit", 1);
  set("group_tiles", knobs.tiles);
  set("groups", knobs.groups);
  set("group_cols", knobs.cols);
  set("group_stages", knobs.stages);
  set("raster", knobs.raster);
  set("pairs", knobs.pairs);
  set("waves", knobs.waves);
  set("group_turns", knobs.turns);
  if (t.knob_index("exchanged") >= 0) set("exchanged", knobs.exchanged);
  if (t.knob_index("group_store") >= 0) set("group_store", knobs.store);
  if (t.knob_index("location") >= 0) set("location", knobs.location);
  return t.instantiate(c);
}

}  // namespace heddle::testing
