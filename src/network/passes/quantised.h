// Pairs of quantisation and dequantisation in declarations: bytes that stand for real numbers.
#pragma once

#include <optional>
#include <string>

#include "heddle/dag/compute_dag.h"

namespace heddle::network {

/// (integers - zero) * scale: what a stage is, with its shape. `zero` (of i32, undefined where it
/// is 0) and `scale` (of f32) are over the axes of the stage.
struct Quantised {
  Tensor integers;
  Expr zero, scale;
};
/// f32(i32(q) - z) * s, or with nothing to subtract; in f16 and bf16, or rounded to these, too.
std::optional<Quantised> dequantised(const Operation& op);

/// `e`, or of f32(e) what was widened from f16 or bf16.
const Expr& narrow_or_wide(const Expr& e);

/// round(read / scale) + zero, saturated to bytes of the stage's type: what a stage is. It reads f32, f16 or
/// bf16.
struct Rounded {
  const Load* read = nullptr;
  double scale = 1, zero = 0;
};
std::optional<Rounded> rounded(const Operation& op);

/// What a stage that rounds to bytes of `type` reads, without bounds that the rounding implies; undefined where
/// there are none, or something else reads what is bounded.
///
///   u8(clamp(round(min(max(x, 0), 6) / 0.02353) + 0))    0 and 6 are the bytes 0 and 255
Expr without_implied_bounds(const ComputeDag& dag, const Rounded& rounded, DataType type);

/// The operation that `load` reads, where it is a stage that may be looked through.
const Operation* read_stage(const ComputeDag& dag, const Load& load);

/// A stage like `op` with another body.
Tensor like(const Operation& op, const Expr& body, const std::string& name);

}  // namespace heddle::network
