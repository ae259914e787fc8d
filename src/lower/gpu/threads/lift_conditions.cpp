// rewrite: for (unrolled) i { for (unrolled) j { s[i, j] = select(t < n, f(x[i, j]), 0) } }
//      --> if (t < n) { for i { for j { s[i, j] = f(x[i, j]) } } } else { for i { for j { s[i, j] = 0 } } }
// where the condition has no loop variable in it. Loads behind a condition wait for each other, and loads of unrolled
// loops do not: rows of a tile that lie beyond the image or the batch are a condition of each row. Asynchronous copies
// wait for nothing, and one instruction copies or clears.
#include "heddle/ir/simplify.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

bool loads(const Expr& e) {
  return any_below(e, [](const Expr& x) {
    const Load* load = x.as<Load>();
    return load && load->buffer->scope != Scope::Local;
  });
}

/// The store that unrolled loops lead to; null where there is anything else.
const Store* store_of(const Stmt& s, std::vector<Var>& vars) {
  if (const Store* store = s.as<Store>()) return store;
  const For* f = s.as<For>();
  if (!f || f->loop != LoopKind::Unrolled) return nullptr;
  vars.push_back(f->var);
  return store_of(f->body, vars);
}

Stmt with_value(const Stmt& s, const Expr& value) {
  if (const Store* store = s.as<Store>())
    return make_store(store->buffer, store->indices, value, store->hint);
  const For& f = *s.as<For>();
  return make_for(f.var, f.extent, f.loop, with_value(f.body, value));
}

}  // namespace

Stmt lift_conditions(const Stmt& s) {
  if (!s) return s;
  std::vector<Var> vars;
  const Store* store = store_of(s, vars);
  const bool waits = store && !vars.empty() && !has(store->hint, StoreHint::Async);
  const Select* select = waits ? store->value.as<Select>() : nullptr;
  if (!select)
    return map_children(
        s, [](const Stmt& c) { return lift_conditions(c); }, [](const Expr& e) { return e; });
  const Broadcast* lanes = select->condition.as<Broadcast>();
  const Expr condition = lanes ? lanes->value : select->condition;
  const bool varies =
      std::any_of(vars.begin(), vars.end(), [&](const Var& v) { return uses_var(condition, v); });
  if (varies || condition.dtype().lanes > 1 || loads(condition) || !loads(select->on_true) ||
      loads(select->on_false))
    return s;
  return make_if(condition, with_value(s, select->on_true), with_value(s, select->on_false));
}

}  // namespace heddle::gpu
