// The axes of a contraction as rows, columns and batch, and the operands that they index. The
// choice of loops on CPUs and GPUs uses it.
#pragma once

#include "common/accesses.h"

namespace heddle::meta {

// The facts about a contraction from which axes are chosen.
struct ContractionShape {
  int v = -1, m = -1;              // positions of the vector and the row axis
  const Access* vector = nullptr;  // the operand that is read by vectors
  const Access* row = nullptr;     // the operand that is broadcast along v
  int vector_dim = -1;             // the dimension of the vector operand that v indexes alone
  int row_dim = -1;
  int64_t rows = 1, cols = 1, depth = 1;  // extents of m and v, and product of the reduce extents
  int64_t group = 1;                      // number of consecutive rows that share a vector operand
  int64_t reuse = 1;                      // multiply-adds for each element of the vector operand
  std::vector<int> batch, m_others,
      v_others;  // the other axes, by the operands that depend on them
};

/// The dimension of `a` that `axis` indexes alone with coefficient 1, or -1. Axes of `op` of extent
/// 1, such as the window of a 1x1 convolution, are ignored.
int plain_dim(const Access& a, const Axis& axis, const Operation* op = nullptr);

/// Analyses stage `s`, which is a contraction. `lanes` is the number of lanes of a native vector of
/// results. With `scattered`, results may be stored one by one where that allows vectors along a
/// constant operand.
ContractionShape contraction_shape(const ComputeDag& dag, int s, int64_t lanes,
                                   bool scattered = false);

}  // namespace heddle::meta
