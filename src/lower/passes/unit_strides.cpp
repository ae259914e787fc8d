#include <algorithm>

#include "heddle/ir/simplify.h"
#include "lower/passes.h"

namespace heddle::lowering {
namespace {

bool steps_by(const Stmt& s, const Var& n) {
  bool found = false;
  visit(
      s, [](const Stmt&) {},
      [&](const Expr& e) {
        const Load* load = e.as<Load>();
        const Ramp* at = load ? load->indices[0].as<Ramp>() : nullptr;
        found |= at && uses_var(at->stride, n);
      });
  return found;
}

}  // namespace

Stmt unit_strides(const Stmt& s, const std::vector<Var>& sizes) {
  for (const Var& n : sizes) {
    if (n->size->lo != 1 || n->size->hi == 1 || !steps_by(s, n)) continue;
    const Stmt one = simplify(substitute(s, {{n, Expr(1)}}));
    return make_if(n.expr() == Expr(1), one, s);
  }
  return s;
}

}  // namespace heddle::lowering
