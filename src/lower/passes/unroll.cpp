#include "lower/passes.h"

namespace heddle::lowering {
namespace {

int count_statements(const Stmt& s) {
  int n = 0;
  visit(s, [&](const Stmt& c) { n += c.kind() != StmtKind::Block; }, [](const Expr&) {});
  return n;
}

}  // namespace

Stmt unroll(const Stmt& s, int max_statements) {
  const For* nest = s ? s.as<For>() : nullptr;
  if (!s || (nest && is_tensorized(nest->loop))) return s;
  Stmt r = map_children(
      s, [&](const Stmt& c) { return unroll(c, max_statements); }, [](const Expr& e) { return e; });
  const For* f = r.as<For>();
  if (!f || f->loop != LoopKind::Unrolled) return r;
  const int64_t* n = as_int(f->extent);
  if (!n || *n * count_statements(f->body) > max_statements) {
    return make_for(f->var, f->extent, LoopKind::Serial, f->body);
  }
  std::vector<Stmt> copies;
  for (int64_t i = 0; i < *n; ++i) copies.push_back(substitute(f->body, {{f->var, Expr(i)}}));
  return make_block(std::move(copies));
}

}  // namespace heddle::lowering
