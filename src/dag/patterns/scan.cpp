// Recognises scans: reductions that give each point of an axis the elements before it.
//
//   sum(select(k <= i, x(k), 0), k)                     a running sum of x
//   sum(select(k <= i % 64, x(i - i % 64 + k), 0), k)   one that begins anew every 64 points
//   sum(select(k <= n - 1 - i, x(n - 1 - k), 0), k)     one from the end
//
// As written they take n operations for each point. Loops in order take one
// (lower/passes/linear_scans.cpp), so scans have meta-templates of their own.
#include "dag/internal.h"
#include "heddle/ir/simplify.h"

namespace heddle::dag {
namespace {

/// Where `c` compares `k` alone and holds for small k, the other side of the comparison; else null.
Expr bound_of(const Expr& c, const Var& k) {
  const Binary* b = c.as<Binary>();
  if (!b || (b->op != BinaryOp::Le && b->op != BinaryOp::Lt) || b->a.dtype() != i64) return {};
  // The difference of both sides, bound - k: k is at most the bound.
  const Expr rest = simplify(b->b - b->a + k.expr());
  return uses_var(rest, k) ? Expr() : rest;
}

/// Whether `source` reads the same elements at every point of a run of `block` points along `axis`.
bool same_along(const Expr& source, const Axis& axis, int64_t block) {
  const Var run("run"), place("place");
  Ranges ranges;
  ranges.set(run, {0, (axis.extent() - 1) / block});
  ranges.set(place, {0, block - 1});
  const Expr at = run.expr() * block + place.expr();
  return !uses_var(simplify(substitute(source, {{axis.var(), at}}), ranges), place);
}

}  // namespace

std::optional<ScanInfo> find_scan(const Operation& op) {
  const Reduce* r = op.is_reduction() ? op.bodies()[0].as<Reduce>() : nullptr;
  if (!r || r->combiner->size() != 1 || r->axes.size() != 1) return std::nullopt;
  const Axis& k = r->axes[0];
  if (!as_int(k->extent)) return std::nullopt;
  const Select* s = r->sources[0].as<Select>();
  if (!s || !equal(s->on_false, r->combiner->identity[0])) return std::nullopt;
  const Expr bound = bound_of(s->condition, k.var());
  if (!bound.defined()) return std::nullopt;
  for (std::size_t p = 0; p < op.axes().size(); ++p) {
    const Axis& i = op.axes()[p];
    if (!uses_var(bound, i.var())) continue;
    if (!as_int(i->extent)) return std::nullopt;
    const int64_t block = k.extent();
    if (i.extent() < 2 || i.extent() < block || !same_along(s->on_true, i, block))
      return std::nullopt;
    return ScanInfo{static_cast<int>(p), block};
  }
  return std::nullopt;
}

}  // namespace heddle::dag
