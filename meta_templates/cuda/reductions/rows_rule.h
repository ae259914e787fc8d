// The rule for the number of threads that share a row, for all templates that reduce rows. The
// loops are in rows.h.
#pragma once

#include <vector>

#include "cuda/common.h"
#include "heddle/target/rule_constants.h"

namespace heddle::meta {

/// The facts about rows that threads share.
struct RowProblem {
  int64_t extent = 1;        ///< elements of a row
  int64_t lanes = 1;         ///< the longest vector that can be read
  int64_t rows = 1;          ///< number of rows
  bool by_clusters = false;  ///< several blocks may share a row, where the GPU has clusters
  /// An element is more than an operation or two (it has an index beside it). The rule then takes
  /// more and smaller blocks.
  bool heavy = false;
  /// Each element, which is shorter than the sum, is multiplied by one of a vector that all rows share
  /// (product_rows_rule).
  bool product = false;
  /// The elements of rows lie in memory as fewer bytes than those of the vector, and are unpacked where they are
  /// read: each thread has several rows, so that the vector is not most of what it reads.
  bool unpacked = false;
  int64_t in_line = 1;  ///< rows along the last axis of the result
  Gpu gpu;
  GpuConstants constants = {};  ///< by which the rule judges

  NamedFeatures features() const;
};

/// The ways in which threads may share rows of `extent` elements.
struct RowSharing {
  int64_t extent = 0;
  int64_t vector = 1;  ///< elements a thread takes at a time
  /// The numbers of threads for a row, ascending: whole warps, and for short rows parts of a warp,
  /// which are powers of two. An empty list means that each thread has a row. Numbers above those
  /// of a block mean the threads of a cluster.
  std::vector<int64_t> options;
  std::vector<int64_t> clusters;  ///< numbers of blocks for a row
  int64_t most = 1024;            ///< largest number of threads of a block

  int64_t rounds(int64_t threads) const { return ceil_div(extent, threads * vector); }
};

RowSharing share_rows(const RowProblem& p);

/// The number of threads for a row, at most those of a block; 0 where there are no options.
int64_t threads_of_row(const RowProblem& p);

/// The defaults of threads, rows_per_block, cluster and unroll for a reduction of rows. `wanted` is
/// the number of threads for a row where another stage has fixed it and it is possible; else 0.
Choice reduce_rows_rule(const RowProblem& p, int64_t wanted);

/// The same for the products of a matrix with a vector, whose rows are those of the matrix: a warp
/// for each, unless they are few. All rows are then under way at once, and none needs a barrier.
Choice product_rows_rule(const RowProblem& p);

/// The number of rows in a block where each row has `threads` threads: four warps of them where a
/// row has at most one, and so needs no barrier.
inline int64_t rows_of_block(int64_t threads) { return threads > kWarp ? 1 : 4 * kWarp / threads; }
/// The values of the knob of rows of a thread: none is cut off at the last row.
std::vector<int64_t> rows_of_threads(const RowProblem& p);
/// The values of the knob of rows in a block.
std::vector<int64_t> rows_of_blocks(const RowSharing& sharing);

/// The facts about the rows of an output stage that have reductions of their own (a softmax).
struct RowGroupProblem {
  RowProblem row;
  int64_t last_extent = 1;  ///< extent of the last axis of a row
  /// The number of elements that a thread keeps for each vector of the row's last axis.
  int64_t elements_of_vector = 1;

  RowSharing sharing() const;
  /// Whether the elements of rows that are shared like `sharing` fit the registers, with `threads`
  /// threads for a row and `rows` rows in each block or in each `cluster` blocks.
  bool fits(const RowSharing& sharing, int64_t threads, int64_t cluster, int64_t rows) const;
  NamedFeatures features() const;
};

/// The defaults of threads, rows_per_block, cluster, resident and unroll.
Choice row_group_rule(const RowGroupProblem& p);

}  // namespace heddle::meta
