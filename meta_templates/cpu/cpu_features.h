// Features of the machine that every heuristic for CPUs uses.
#pragma once

#include "heddle/schedule/choice.h"

namespace heddle::meta::cpu {

inline NamedFeatures cpu_features(const Target& target) {
  const auto number = [](auto x) { return static_cast<double>(x); };
  return {{"cores", number(target.cores)},
          {"vector_bytes", number(target.vector_bytes)},
          {"vector_registers", number(target.vector_registers)},
          {"fma_units", number(target.fma_units)},
          {"l1d_bytes", number(target.l1d_bytes)},
          {"l2_bytes", number(target.l2_bytes)},
          {"l3_bytes", number(target.l3_bytes)},
          {"prefers_bf16_dots", number(target.prefers_bf16_dots())}};
}

}  // namespace heddle::meta::cpu
