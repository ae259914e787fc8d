// Replaces a part of an expression by its form, where `substitute` replaces a variable.
#pragma once

#include "heddle/ir/expr.h"

namespace heddle {

/// `e` with `to` in place of each part that is equal to `from`. What is replaced is not entered again.
Expr replace_equal(const Expr& e, const Expr& from, const Expr& to);
/// The same for several expressions with shared nodes: `memo` is for one `from` and one `to`.
Expr replace_equal(const Expr& e, const Expr& from, const Expr& to, RewriteMemo& memo);

}  // namespace heddle
