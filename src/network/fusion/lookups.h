// Stages that look elements up, such as a gather, where products read them.
#pragma once

#include "network/fusion/fusion_plan.h"

namespace heddle::network {

/// Whether stage `s` reads elements at indices that it reads.
bool looks_up(const ComputeDag& dag, int s);

/// How often products look up an element of `s`, on average, if they compute it where they read it;
/// 0 where no product does. A product looks it up again for each tile of rows, where each column,
/// row or term of the sum has a lookup of its own, and its vectors are gathered. It reads `s`
/// directly, or through stages of its node that move elements and look nothing up.
///
///   q[b, m, k] * keys[index[n], k]         a lookup for each column
///   x[b, m, k] * weights[expert[b], k, n]  a lookup for each matrix: 0
double times_looked_up(const FusionPlan& plan, int s);

}  // namespace heddle::network
