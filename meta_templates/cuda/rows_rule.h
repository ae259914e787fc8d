// How many threads share a row, and how: one rule for all templates that reduce rows. The loops are
// in rows.h.
#pragma once

#include <vector>

#include "cuda/common.h"

namespace heddle::meta {

/// Rows that are to be shared.
struct RowProblem {
  int64_t extent = 1;        ///< elements of a row
  int64_t lanes = 1;         ///< the longest vector that can be read
  int64_t rows = 1;          ///< how many
  bool by_clusters = false;  ///< several blocks may share a row, where the GPU has clusters
  /// An element is more than an operation or two (it has an index beside it): more, smaller blocks.
  bool heavy = false;
  Gpu gpu;

  NamedFeatures features() const;
};

/// How threads may share rows of `extent` elements.
struct RowSharing {
  int64_t extent = 0;
  int64_t vector = 1;  ///< elements a thread takes at a time
  /// Threads a row: whole warps; empty: a row a thread. More than a block has: those of a cluster.
  std::vector<int64_t> options;
  std::vector<int64_t> clusters;  ///< blocks a row
  int64_t most = 1024;            ///< threads of a block

  int64_t rounds(int64_t threads) const { return ceil_div(extent, threads * vector); }
};

RowSharing share_rows(const RowProblem& p);

/// Threads a row, at most a block's; 0 where there are no options.
int64_t threads_of_row(const RowProblem& p);

/// Defaults of threads, rows_per_block, cluster and unroll for a reduction of rows. `wanted`:
/// threads a row, where something else has settled that, and it can be had; else 0.
Choice reduce_rows_rule(const RowProblem& p, int64_t wanted);

/// Warps of a row that share a block where a row is a warp's.
inline constexpr int64_t kRowsOfWarps = 4;

/// Rows of an output stage with reductions of their own (a softmax).
struct RowGroupProblem {
  RowProblem row;
  int64_t last_extent = 1;  ///< of the rows' last axis
  /// Elements that a thread keeps of a row for each vector of its last axis.
  int64_t elements_of_vector = 1;

  RowSharing sharing() const;
  /// Whether the elements of rows shared like `sharing` fit the registers of `threads` a row, of
  /// which a block has one in `cluster`, and `rows` rows.
  bool fits(const RowSharing& sharing, int64_t threads, int64_t cluster, int64_t rows) const;
  NamedFeatures features() const;
};

/// Defaults of threads, rows_per_block, cluster, resident and unroll.
Choice row_group_rule(const RowGroupProblem& p);

}  // namespace heddle::meta
