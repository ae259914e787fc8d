// Vectors and threads of a CPU: how wide, and when they pay.
#pragma once

#include <vector>

#include "common/costs.h"
#include "heddle/schedule/template.h"

namespace heddle::meta {

/// The lanes of one native vector of the stage's (first) result.
inline int64_t native_lanes(const TemplateBuilder& t, int stage) {
  return t.target().vector_lanes(t.dag().stage(stage).output(0).dtype().bytes());
}

/// Below this a parallel region costs more than it saves: waking a worker takes 30 to 100 us, a
/// spinning one 0.5 us (docs/decisions/measured-choices.md), so a few hundred thousand operations.
inline constexpr double kMinParallelWork = 2e5;

inline bool worth_parallel(const TemplateBuilder& t, double work) {
  return t.target().cores > 1 && work >= kMinParallelWork;
}

/// How many elements a vector loop of stage `s` takes at once: a native vector, or two of them side
/// by side where it calls dear functions. Those are long chains of instructions, and two of them
/// share the loads of their constants, which do not all fit the registers (softmax 197x768: 131 and
/// 102 us).
inline Param vector_width(TemplateBuilder& t, int s, bool dear) {
  const int64_t lanes = native_lanes(t, s);
  if (!dear) return Param(lanes);
  return t.knob("width", {lanes, 2 * lanes}, 2 * lanes, "dear functions of two vectors at a time");
}

}  // namespace heddle::meta
