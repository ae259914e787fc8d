// Elements of tiles that may lie beyond the sizes of a call:
//
//   t[j] = i < n ? f(x[i], b[j]) : 0
//     -->
//   v = i < n ? x[i] : 0;  w = i < n ? b[j] : 0;  u = f(v, w);  t[j] = i < n ? u : 0
//
// A compiler makes predicated loads and a choice of registers of that. Of the first form it makes a
// branch around all of f, and the loads of the next elements wait until those before have arrived.
#include <utility>
#include <vector>

#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

/// Whether `e` can be computed where its loads give zero.
bool is_total(const Expr& e) {
  if (e.as<Load>()) return true;
  if (e.kind() == ExprKind::Shuffle) return false;
  const Binary* b = e.as<Binary>();
  const int64_t* divisor = b ? as_int(b->b) : nullptr;
  if (b && !e.dtype().is_float() && (divisor == nullptr || *divisor <= 0) &&
      (b->op == BinaryOp::Div || b->op == BinaryOp::FloorDiv || b->op == BinaryOp::FloorMod))
    return false;
  bool all = true;
  for_each_child(e, [&](const Expr& child) { all = all && is_total(child); });
  return all;
}

Expr zero_of(DataType t) {
  const Expr zero = make_const(t.element(), 0);
  return t.is_vector() ? make_broadcast(zero, t.lanes) : zero;
}

using Lets = std::vector<std::pair<Var, Expr>>;

/// `e` with a variable for each of its loads from memory, which `lets` defines.
Expr with_loads_ahead(const Expr& e, const Expr& condition, Lets& lets) {
  if (const Load* load = e.as<Load>()) {
    if (load->buffer->scope == Scope::Local) return e;
    for (const auto& [v, value] : lets) {
      if (equal(value.as<Select>()->on_true, e)) return v.expr();
    }
    lets.emplace_back(Var("v", e.dtype()), make_select(condition, e, zero_of(e.dtype())));
    return lets.back().first.expr();
  }
  return map_children(e,
                      [&](const Expr& child) { return with_loads_ahead(child, condition, lets); });
}

Stmt with_loads_ahead(const Store& store) {
  const Stmt same = make_store(store.buffer, store.indices, store.value, store.hint);
  const Select* s = store.value.as<Select>();
  if (!s || s->condition.dtype().is_vector() || s->on_true.as<Load>() || !is_total(s->on_true))
    return same;
  Lets lets;
  const Expr chosen = with_loads_ahead(s->on_true, s->condition, lets);
  if (lets.empty()) return same;
  lets.emplace_back(Var("u", chosen.dtype()), chosen);
  Stmt out =
      make_store(store.buffer, store.indices,
                 make_select(s->condition, lets.back().first.expr(), s->on_false), store.hint);
  for (size_t i = lets.size(); i-- > 0;) out = make_let(lets[i].first, lets[i].second, out);
  return out;
}

Stmt rewritten(const Stmt& s) {
  if (const Store* store = s ? s.as<Store>() : nullptr) return with_loads_ahead(*store);
  return map_children(
      s, [](const Stmt& c) { return rewritten(c); }, [](const Expr& e) { return e; });
}

bool has_tiles(const Stmt& s) {
  bool found = false;
  visit(s, [&](const Stmt& x) { found |= x.as<TileOp>() != nullptr; }, [](const Expr&) {});
  return found;
}

}  // namespace

void predicate_loads(GpuKernel& kernel) {
  if (has_tiles(kernel.body)) kernel.body = rewritten(kernel.body);
}

}  // namespace heddle::gpu
