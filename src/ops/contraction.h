// Parts that matmul, einsum and convolution share: the types of a sum of products, and the stages
// after it.
#pragma once

#include "heddle/ops/precision.h"
#include "ops/common.h"

namespace heddle::ops::impl {

struct ContractionTypes {
  DataType accumulate, output;
};

/// Checks that the operands match and fills in the defaults of `precision`.
ContractionTypes contraction_types(const Call& call, const Tensor& a, const Tensor& b,
                                   const Precision& precision);

/// a * b in type `t`.
Expr product_in(DataType t, Expr a, Expr b);

/// `sums` plus `bias` along dimension `bias_axis` (if `bias` is set), in the output type. These are
/// separate stages: the reduction remains a pure one, and the schedule fuses them into its tiles.
Tensor finish_contraction(const Call& call, const Tensor& sums, const Tensor& bias, int bias_axis,
                          const ContractionTypes& types);

}  // namespace heddle::ops::impl
