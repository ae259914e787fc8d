#include "heddle/ir/simplify.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

bool has_load(const Expr& e) {
  bool found = false;
  visit(e, [&](const Expr& x) { found |= x.kind() == ExprKind::Load; });
  return found;
}

Expr joined(const Expr& e, RewriteMemo& memo) {
  const Expr r = map_children(
      e, [&](const Expr& c) { return memo(c, [&](const Expr& x) { return joined(x, memo); }); });
  const Select* outer = r.as<Select>();
  const Select* inner = outer ? outer->on_true.as<Select>() : nullptr;
  if (!inner || !is_const(outer->on_false, 0) || !equal(outer->on_false, inner->on_false) ||
      has_load(inner->condition))
    return r;
  return make_select(outer->condition && inner->condition, inner->on_true, inner->on_false);
}

}  // namespace

Stmt join_zero_fills(const Stmt& s) {
  if (!s) return s;
  return map_children(
      s, [](const Stmt& c) { return join_zero_fills(c); },
      [](const Expr& e) {
        RewriteMemo memo;
        return joined(e, memo);
      });
}

}  // namespace heddle::gpu
