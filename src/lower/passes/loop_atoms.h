// The comparisons inside of a loop that change as it runs: where loop_partition may cut it.
#pragma once

#include <vector>

#include "heddle/ir/simplify.h"
#include "heddle/ir/stmt.h"

namespace heddle::lowering {

/// One comparison inside a loop over v, as  coefficient*v + inner + outer > 0.
struct LoopAtom {
  Expr condition;
  int64_t coefficient = 0;
  Interval inner;       ///< range of the part that varies inside the loop
  Expr outer;           ///< the part that is fixed while the loop runs
  bool clamp = false;   ///< the arm of a min or max in an index or an extent, not a condition
  bool copied = false;  ///< it varies over a loop of which copies are made (unrolled, vectorized),
                        ///< or decides the extent of one
  /// A minimum in the extent of an inner loop, and its arms where the condition holds or does not.
  Expr minimum{}, where_true{}, where_false{};
};

/// What is found in the body of a loop over `v`.
struct LoopAtoms {
  std::vector<LoopAtom> list;
  int nodes = 0;  ///< of the body
};
LoopAtoms find_loop_atoms(const Var& v, const Stmt& body);

/// The first v after the change of the atom for inner value r: from there on it holds (rising) or
/// does not hold (falling).
Expr threshold(const LoopAtom& a, int64_t r);

}  // namespace heddle::lowering
