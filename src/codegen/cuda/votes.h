// Conditions on which the lanes of a warp vote.
#pragma once

#include <unordered_set>

#include "heddle/ir/stmt.h"

namespace heddle::cuda {

/// What is known of the lanes of a warp at a statement.
struct WarpFacts {
  std::unordered_set<const VarNode*> same;        ///< variables that are equal in all lanes
  std::unordered_set<const VarNode*> lanes;       ///< variables that are threadIdx.x
  std::unordered_set<const BufferNode*> written;  ///< buffers that the kernel stores to

  /// Whether all lanes have the same value of `e`: of variables that are the same, and of memory that
  /// no thread changes.
  bool is_same(const Expr& e) const;
};

/// The condition of a search, which is the same in all lanes of a warp and holds wherever that of some
/// lane holds:
///
///   for q { if (lo + t*4 <= p[q] && p[q] < lo + t*4 + 4) A }    t: threadIdx.x, of warps of 32
///     -->  lo + t/32*32*4 <= p[q] && p[q] < lo + (t/32*32 + 31)*4 + 4
///
/// Null where `loop` is no search for iterations that data name, or where nothing is known of its lanes.
Expr vote_of(const For& loop, const WarpFacts& facts);

/// Whether `loop` is a search for iterations that data name, which each lane makes for itself: its condition
/// reads other memory than the kernel writes, so that it can be tested before earlier iterations have run.
bool tests_ahead(const For& loop, const WarpFacts& facts);

}  // namespace heddle::cuda
