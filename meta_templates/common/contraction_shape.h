// Which axes of a contraction are rows, columns and batch, and which operand feeds which: what the
// choice of loops rests on, on CPUs and GPUs alike.
#pragma once

#include "common/accesses.h"

namespace heddle::meta {

// What the choice of axes rests on.
struct ContractionShape {
  int v = -1, m = -1;              // positions of the vector and the row axis
  const Access* vector = nullptr;  // the operand read by vectors
  const Access* row = nullptr;     // the operand broadcast along v
  int vector_dim = -1;             // the dimension of the vector operand that v indexes alone
  int row_dim = -1;
  int64_t rows = 1, cols = 1, depth = 1;       // extents of m and v; product of the reduce extents
  int64_t group = 1;                           // consecutive rows that share a vector operand
  int64_t reuse = 1;                           // multiply-adds an element of the vector operand
  std::vector<int> batch, m_others, v_others;  // the other axes, by who depends on them
};

/// The dimension of `a` that `axis` indexes alone with coefficient 1, or -1. Axes of `op` of extent
/// 1, such as the window of a 1x1 convolution, add nothing to an index.
int plain_dim(const Access& a, const Axis& axis, const Operation* op = nullptr);

/// The shape of the contraction that is stage `s`. `lanes`: of a native vector of results.
/// `scattered`: results may be stored one by one, where vectors along a constant operand are worth
/// that.
ContractionShape contraction_shape(const ComputeDag& dag, int s, int64_t lanes,
                                   bool scattered = false);

}  // namespace heddle::meta
