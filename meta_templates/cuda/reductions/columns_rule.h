// The rule for how the threads of a block share columns that are reduced. The recipe is in
// reduce_columns.cpp.
#pragma once

#include "cuda/common.h"

namespace heddle::meta {

struct ColumnProblem {
  int64_t columns = 1;      ///< extent of the result's last axis
  int64_t length = 1;       ///< elements of a column
  int64_t lanes = 1;        ///< the longest vector that can be read
  int64_t value_bytes = 4;  ///< bytes of a result with all its components
  int64_t most_down = 8;    ///< the largest default extent of threadIdx.y
  Gpu gpu;

  /// The number of columns of a thread.
  int64_t vector() const { return whole_vector(columns, lanes); }
  /// Whether a block may have this number of threads, and whether their partial results fit its
  /// shared memory.
  bool fits(int64_t threads) const;
  NamedFeatures features() const;
};

/// The defaults of threads_across, threads_down and unroll.
Choice reduce_columns_rule(const ColumnProblem& p);

}  // namespace heddle::meta
