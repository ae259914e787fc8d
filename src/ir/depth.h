// The limit of nesting. Passes and code generators walk expressions by recursion, so a deeper one
// could fill the stack of the thread.
#pragma once

#include "heddle/ir/expr.h"

namespace heddle {

inline constexpr int kDeepestExpression = 4000;

/// The number of levels of `e`, or more than `most` where it has more.
int height_up_to(const Expr& e, int most);

/// Whether `e` has more than kDeepestExpression levels.
bool is_too_deep(const Expr& e);

}  // namespace heddle
