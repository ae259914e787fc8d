// Vectors and threads of a CPU: their width, and when they gain.
#pragma once

#include <algorithm>
#include <vector>

#include "common/costs.h"
#include "heddle/schedule/template.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta::cpu {

/// The number of lanes of one native vector of the stage's (first) result.
inline int64_t native_lanes(const TemplateBuilder& t, int stage) {
  return t.target().vector_lanes(t.dag().stage(stage).output(0).dtype().bytes());
}

/// Whether a parallel region saves more than it costs for this number of operations. Waking a worker
/// takes 30 to 100 us, a spinning worker 0.5 us (docs/internals/decisions/measured-choices.md).
inline bool worth_parallel(const TemplateBuilder& t, double work) {
  return t.target().cores > 1 && work >= t.constants().cpu.parallel_work;
}

/// The same for reductions that stream memory, and for groups of rows. An operation of these takes longer than one of a product,
/// because rows end. (Emerald Rapids, two threads, time over that of one: 0.53 to 0.68 for softmax of 433 x 12, 128 x 40 and
/// 64 x 55, 0.63 for sums of 511 rows of 112; 1.2 to 1.3 below 30,000 operations.)
inline bool worth_parallel_rows(const TemplateBuilder& t, double work) {
  const CpuConstants& by = t.constants().cpu;
  return t.target().cores > 1 &&
         work >= std::min(by.parallel_work, by.row_work_a_core * t.target().cores);
}

/// Where transcendental functions are called, vectors of twice the native width are the default.
/// Such functions are long chains of instructions. Two of them share the loads of their constants,
/// which do not all fit the registers (softmax 197x768: 131 us with one, 102 us with two).
inline void choose_vector_width(int64_t lanes, Choice& choice) {
  choice.set("width", 2 * lanes, "transcendental functions of two vectors at a time");
}

/// The number of elements that a vector loop takes at once: a native vector, or a knob where it
/// calls transcendental functions.
inline Param ask_vector_width(TemplateBuilder& t, int64_t lanes, bool transcendental,
                              const Choice& choice) {
  return transcendental ? t.knob("width", {lanes, 2 * lanes}, choice) : Param(lanes);
}

}  // namespace heddle::meta::cpu
