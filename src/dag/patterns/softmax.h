// The two reductions of a softmax: the maximum of each row, and the sum of its exponentials.
#pragma once

#include "heddle/dag/compute_dag.h"
#include "heddle/dag/why_not.h"

namespace heddle::dag {

struct Softmax {
  int highest = -1;     ///< the stage of the maximum
  bool stored = false;  ///< the exponentials are a stage that something else reads too
};

/// Whether stage `total` is sum over j of exp(x(i, j) - max over j of x(i, j)): empty, and `out` is
/// filled in, or the reason why it is not. Stages between are looked through.
WhyNot match_softmax(const ComputeDag& dag, int total, Softmax* out);

}  // namespace heddle::dag
