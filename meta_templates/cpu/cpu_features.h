// Features of the machine that every heuristic for CPUs uses.
#pragma once

#include "heddle/instruction/instruction.h"
#include "heddle/schedule/choice.h"

namespace heddle::meta::cpu {

/// Whether pairs of bf16 that one instruction adds up are faster than two multiply-adds of f32.
/// Cooper Lake and Zen start it in the time of a multiply-add. Cores with FP16 (Golden Cove) split it
/// into four operations, which is no faster than two multiply-adds each; they have AMX for bf16.
inline bool prefers_bf16_dots(const Target& target) {
  return adds_products(target, f32, bf16, bf16, 2) && !target.has("avx512fp16");
}

inline NamedFeatures cpu_features(const Target& target) {
  const auto number = [](auto x) { return static_cast<double>(x); };
  return {{"cores", number(target.cores)},
          {"vector_bytes", number(target.vector_bytes)},
          {"vector_registers", number(target.vector_registers)},
          {"fma_units", number(target.fma_units)},
          {"l1d_bytes", number(target.l1d_bytes)},
          {"l2_bytes", number(target.l2_bytes)},
          {"l3_bytes", number(target.l3_bytes)},
          {"prefers_bf16_dots", number(prefers_bf16_dots(target))}};
}

}  // namespace heddle::meta::cpu
