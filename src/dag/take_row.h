// A row of a result, where only that is wanted.
//
//   hidden (b, n, k), logits = sum(hidden(b, i, k) * w(k, v)) (b, n, v)
//     the row n - 1 of logits, its dimension 1:   sum(hidden(b, n - 1, k) * w(k, v)) (b, v)
#pragma once

#include "heddle/dag/compute_dag.h"

namespace heddle::dag {

/// Element `at` of dimension `axis` of a tensor of the graph, without that dimension. `at` is made of
/// sizes and numbers. Stages before it that nothing else reads, and of which it reads one row, are declared for
/// that row alone, so that a product computes no others. The result is for a graph in the place of `t`: it
/// shares axes with it.
Tensor take_row(const ComputeDag& dag, const Tensor& t, int axis, const Expr& at);

}  // namespace heddle::dag
