// A product of f32 as three products of tf32, whose sum is as exact as f32 if it is long.
//
// A number a is h(a) + l(a) and a remainder of 2^-23 of it at most, where h(a) = tf32(a) and
// l(a) = tf32(a - h(a)). So a * b is
//
//   h(a) * h(b) + h(a) * l(b) + l(a) * h(b)
//
// but for l(a) * l(b) and remainders, together at most 2^-21 of it (Markidis et al. 2018, "NVIDIA
// tensor core programmability, performance & precision", arXiv:1803.04014; CUTLASS's 3xTF32). An
// infinite number is a one of its sign and an infinite rest, so that results are infinite or NaN where
// those of f32 are, unless products pass the largest number by 2^11 times: they may be NaN. The
// parts lie along the depth of a longer product, so that every template for products takes it:
//
//   A'[.., q] = h, h, l of A[.., k]    B'[.., q] = h, l, h of B[.., k]    for each eight of k
#pragma once

#include <cstdint>

#include "heddle/dsl/tensor.h"

namespace heddle::tf32 {

/// Terms of the depth that follow each other in one part: two of the vectors that are stored.
inline constexpr int64_t kRun = 8;

/// The length of the longer depth; rounded up to whole runs of `multiple`.
int64_t depth_of_parts(int64_t depth, int64_t multiple = kRun);
/// The term of the declared depth that place `q` of the longer one is of.
Expr term_at(const Expr& q);

/// The two factors of a product.
enum class Side { Left, Right };
/// What stands at place `q` where the factor is `value`.
Expr part_at(const Expr& q, const Expr& value, Side side);

/// By how much the errors of a sum of so many products exceed those in f32, which grow with the
/// number of terms: those of the parts do not. Matrix units have to add up tiles of the sum in f32.
double error_growth(double terms);

}  // namespace heddle::tf32
