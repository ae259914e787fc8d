// A reduction over a thread loop, as the nest builder writes it:
//
//   for t (threadIdx.x) { C[i] = C[i] + part[t] }
//   for t (threadIdx.x) {
//     let a = f(C0[i], C1[i], p0[t], p1[t]); let b = g(..); C0[i] = a; C1[i] = b
//   }
//   for t (threadIdx.x) { if (row < rows) C[i] = C[i] + part[t] }     where rows lie beyond the
//   last one
#pragma once

#include <optional>
#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle::gpu {

struct ThreadReduction {
  Var thread;
  struct Component {
    Buffer to;
    std::vector<Expr> at;  ///< indices without `thread`
    Expr part;             ///< the term of one thread
    Var lhs, rhs;
  };
  std::vector<Component> components;
  std::vector<Expr> combine;  ///< by component, in terms of all lhs and rhs
  Expr condition;             ///< of the row, the same for all its threads; null: none
};

/// The reduction that `loop` is, if it is one.
std::optional<ThreadReduction> as_thread_reduction(const For& loop);

/// The shuffles that combine the parts of the first `extent` threads of a block that has `block` of
/// them along x, both whole warps. Each thread of the block ends with the whole result in `to`.
/// Where a warp has several rows, `extent` equals `block`, and each row ends with its own result.
/// `counted`: in a cluster, where this runs once, no barrier is needed but the arrival of all
/// parts.
Stmt emit_thread_reduction(const ThreadReduction& r, int64_t extent, int64_t block, bool counted);

}  // namespace heddle::gpu
