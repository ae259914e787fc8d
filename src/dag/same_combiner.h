// Whether two reducers compute the same.
#pragma once

#include "heddle/ir/expr.h"

namespace heddle::dag {

/// Whether the formulas of `a` and `b` are the same, whatever their variables are called: each call
/// of an operator such as argmax makes a reducer of its own.
bool same_combiner(const Combiner& a, const Combiner& b);

}  // namespace heddle::dag
