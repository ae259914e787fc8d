// Gradients of products of 16-bit operands that are summed in f32. What such a product receives is
// f32, and beside a 16-bit operand it would be a product that no matrix unit takes. So it is rounded
// to the type of the operands, as if the product had that type.
//
//   y[r, c] = sum over k of f32(p[r, k]) * f32(v[k, c])     p, v in f16; dy is f32
//
//   dp[r, k] = sum over c of f32(f16(dy[r, c])) * f32(v[k, c])
//
// Where dy is a 16-bit tensor times a factor, dy[r, c] = f32(d[r, c]) * s[r], nothing of dy is
// rounded: gradients are small, and a factor below 1 makes them less than f16 has.
//
//   dp[r, k] = s[r] * sum over c of f32(d[r, c]) * f32(v[k, c])
//   dv[k, c] = sum over r of f32(f16(p[r, k] * s[r])) * f32(d[r, c])
#pragma once

#include <optional>

#include "autodiff/inverse.h"
#include "heddle/dsl/tensor.h"

namespace heddle::autodiff {

/// What a product of 16-bit operands passes on of what it receives: `head` rounded to their type, or
/// 16-bit values and their factors. `head` itself where `op` is no such product or `head` is f16.
/// `given` is the tensor that `head` reads at the axes of `op`.
Expr narrow_head(const Operation& op, const Tensor& given, const Expr& head);

/// A product of two 16-bit values, in f32, and what multiplies its sum; null for nothing.
struct NarrowProduct {
  Expr product, factor;
};

/// `value`, which is summed over `loops` at each of `positions`, as such a product. Nothing where it
/// is one already or cannot be one.
std::optional<NarrowProduct> narrow_product(const Expr& value,
                                            const std::vector<Position>& positions,
                                            const std::vector<Loop>& loops, const Where& where);

}  // namespace heddle::autodiff
