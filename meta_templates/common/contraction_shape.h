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
  int64_t col_group = 1;  // number of consecutive columns that share the row operand
  int64_t reuse = 1;      // multiply-adds for each element of the vector operand
  std::vector<int> batch, m_others,
      v_others;  // the other axes, by the operands that depend on them
};

/// The dimension of `a` that `axis` indexes alone with coefficient 1, or -1. Axes of `op` of extent
/// 1, such as the window of a 1x1 convolution, are ignored.
int plain_dim(const Access& a, const Axis& axis, const Operation* op = nullptr);

/// Which axes may be the vector axis.
enum class Columns {
  Together,  ///< results that lie together
  Scattered,  ///< also others, which are stored one by one, where the vectors are of a constant operand
  InGroups,  ///< likewise; the row operand may depend on the group of a column (a grouped
             ///< convolution), where a group is whole vectors
};

/// Analyses stage `s`, which is a contraction. `lanes` is the number of lanes of a vector of results.
ContractionShape contraction_shape(const ComputeDag& dag, int s, int64_t lanes,
                                   Columns columns = Columns::Together);

}  // namespace heddle::meta
