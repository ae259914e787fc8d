// Which terms of a sum are zero whatever its inputs hold.
//
//   P[i, j] = exp(select(j <= i, S[i, j], -inf) - m[i])
//   Q[i, c] = sum over j of P[i, j] * V[j, c]        the terms of j > i are zero: `end` is i + 1
//   R[j, c] = sum over i of P[i, j] * W[i, c]        those of i < j are: `first` is j
//
// Operands that are no numbers (NaN, infinite) count as numbers, as in any kernel of attention that
// leaves out keys which are masked.
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// Bounds of the index of a sum in terms of the axes of its stage, along each of which they do not
/// decrease; null: there is none.
struct NeededTerms {
  Expr first, end;
};

/// The terms of the sum over one axis that is stage `s` that may differ from zero; all of any other
/// stage.
NeededTerms needed_terms(const ComputeDag& dag, int s);

}  // namespace heddle::dag
