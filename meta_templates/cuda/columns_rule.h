// How the threads of a block share columns that are to be reduced: a rule apart from the recipe
// (reduce_columns.cpp).
#pragma once

#include "cuda/common.h"

namespace heddle::meta {

struct ColumnProblem {
  int64_t columns = 1;      ///< extent of the result's last axis
  int64_t length = 1;       ///< elements of a column
  int64_t lanes = 1;        ///< the longest vector that can be read
  int64_t value_bytes = 4;  ///< of a result, all its components
  int64_t most_down = 8;    ///< threadIdx.y goes no further by default
  Gpu gpu;

  /// Columns of a thread.
  int64_t vector() const { return whole_vector(columns, lanes); }
  /// Whether so many threads are no more than a block may have, and their parts fit its shared
  /// memory.
  bool fits(int64_t threads) const;
  NamedFeatures features() const;
};

/// Defaults of threads_across, threads_down and unroll.
Choice reduce_columns_rule(const ColumnProblem& p);

}  // namespace heddle::meta
