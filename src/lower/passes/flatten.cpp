#include "heddle/ir/simplify.h"
#include "lower/passes.h"

namespace heddle::lowering {
namespace {

std::vector<Expr> flat_index(const Buffer& buffer, const std::vector<Expr>& indices) {
  Expr flat(0);
  for (size_t d = 0; d < indices.size(); ++d) flat = flat * buffer->shape[d] + indices[d];
  return {flat};
}

Expr flatten_expr(const Expr& e, RewriteMemo& memo) {
  return memo(e, [&](const Expr& x) {
    Expr r = map_children(x, [&](const Expr& c) { return flatten_expr(c, memo); });
    const Load* load = r.as<Load>();
    return load ? make_load(load->buffer, flat_index(load->buffer, load->indices)) : r;
  });
}

}  // namespace

Stmt flatten(const Stmt& s) {
  if (!s) return s;
  RewriteMemo memo;
  Stmt r = map_children(
      s, [](const Stmt& c) { return flatten(c); },
      [&](const Expr& e) { return flatten_expr(e, memo); });
  if (const Store* st = r.as<Store>()) {
    return make_store(st->buffer, flat_index(st->buffer, st->indices), st->value, st->hint);
  }
  if (const Prefetch* p = r.as<Prefetch>()) {
    return make_prefetch(p->buffer, flat_index(p->buffer, p->indices));
  }
  return r;
}

}  // namespace heddle::lowering
