#include "ir/replace.h"

namespace heddle {

Expr replace_equal(const Expr& e, const Expr& from, const Expr& to, RewriteMemo& memo) {
  return memo(e, [&](const Expr& x) {
    if (equal(x, from)) return to;
    return map_children(x, [&](const Expr& c) { return replace_equal(c, from, to, memo); });
  });
}

Expr replace_equal(const Expr& e, const Expr& from, const Expr& to) {
  RewriteMemo memo;
  return replace_equal(e, from, to, memo);
}

}  // namespace heddle
