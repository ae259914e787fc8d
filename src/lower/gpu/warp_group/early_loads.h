// Loads from memory for what follows products, before the warp group waits for the products:
//
//   for t { P += A * tile(t); wait; for i { W[i] = P[i] * s[t*64 + i] } }
//   -->
//   for t { P += A * tile(t); for i { R[i] = s[t*64 + i] }; wait; for i { W[i] = P[i] * R[i] } }
//
// What is the same for all tiles is loaded before the loop.
#pragma once

#include <vector>

#include "heddle/ir/stmt.h"

namespace heddle::gpu {

/// Statements of an iteration of a loop over tiles, with their loads in registers.
struct EarlyLoads {
  std::vector<Stmt> uses;        ///< in place of those given
  std::vector<Stmt> once, each;  ///< the loads, before the loop and in each iteration
  std::vector<Buffer> registers;
  int64_t elements() const;
};

/// Takes loads out of `uses`, which run in each iteration of the loop over `tile`, as long as `most` registers
/// hold them: those that several elements have in common, such as what a row or a column is scaled by.
EarlyLoads early_loads(const std::vector<Stmt>& uses, const Var& tile, int64_t most);

}  // namespace heddle::gpu
