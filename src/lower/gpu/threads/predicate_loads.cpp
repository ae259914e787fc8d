// Elements of tiles that may lie beyond the sizes of a call:
//
//   t[j] = i < n ? f(x[i], b[j]) : 0
//     -->
//   v = i < n ? x[i] : 0;  w = i < n ? b[j] : 0;  u = f(v, w);  t[j] = i < n ? u : 0
//
// A compiler makes predicated loads and a choice of registers of that. Of the first form it makes a
// branch around all of f, and the loads of the next elements wait until those before have arrived.
#include <algorithm>
#include <unordered_set>
#include <utility>
#include <vector>

#include "heddle/ir/simplify.h"
#include "ir/linear.h"
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

// ---- loads that are in bounds whether or not they are chosen ----

/// Loads the arms of selects before their conditions are known:
///
///   y[i] = m[i] > 0 ? a[i] + (c ? b[i / 2] : 0) : 0
///     -->
///   v = a[i];  w = b[i / 2];  y[i] = m[i] > 0 ? v + (c ? w : 0) : 0
///
/// where data decide, or lanes of a vector differ, and in the epilogues of products, which have few warps. All loads
/// are then under way at once and load vectors. Memory that the kernel writes is left alone.
class LoadsAhead {
 public:
  explicit LoadsAhead(const GpuKernel& k) : tiles_(has_tiles(k.body)) {
    visit(
        k.body,
        [&](const Stmt& x) {
          if (const Store* store = x.as<Store>()) written_.insert(store->buffer.get());
          const TileOp* op = x.as<TileOp>();
          for (size_t i = 0; op && i < op->operands.size(); ++i)
            written_.insert(op->operands[i].buffer.get());
        },
        [](const Expr&) {});
  }

  Stmt run(const Stmt& s) {
    if (!s) return s;
    if (const Store* store = s.as<Store>()) return of_store(*store);
    const For* loop = s.as<For>();
    if (loop) ranges_.set(loop->var, {0, range_of(loop->extent, ranges_).max - 1});
    const Let* let = s.as<Let>();
    if (let && !let->value.dtype().is_float() && !let->value.dtype().is_vector())
      ranges_.set(let->var, range_of(let->value, ranges_));
    return map_children(s, [&](const Stmt& c) { return run(c); }, [](const Expr& e) { return e; });
  }

 private:
  static constexpr size_t kMostLoads = 8;  // of a store, each in registers

  bool in_bounds(const Load& load) const {
    const Buffer& b = load.buffer;
    if (b->scope == Scope::Local || b->scope == Scope::Shared || written_.contains(b.get()) ||
        load.indices.size() != 1 || has_load(load.indices[0]))
      return false;
    int64_t elements = 1;  // indices are flat by now
    for (const Expr& e : b->shape) {
      const int64_t* extent = as_int(e);
      if (!extent) return false;
      elements *= *extent;
    }
    const Interval at = range_of(load.indices[0], ranges_);
    return at.min >= 0 && at.max < elements;
  }

  /// The rewriting of one value, whose nodes may be shared.
  struct Value {
    Lets lets;
    RewriteMemo outside, in_arms;
  };

  Expr rewritten(const Expr& e, bool in_arm, Value& v) const {
    return (in_arm ? v.in_arms : v.outside)(e,
                                            [&](const Expr& x) { return of_node(x, in_arm, v); });
  }

  Expr of_node(const Expr& e, bool in_arm, Value& v) const {
    if (const Load* load = in_arm ? e.as<Load>() : nullptr) {
      const auto known =
          std::ranges::find_if(v.lets, [&](const auto& l) { return equal(l.second, e); });
      if (known != v.lets.end()) return known->first.expr();
      if (v.lets.size() == kMostLoads || !in_bounds(*load)) return e;
      v.lets.emplace_back(Var("v", e.dtype()), e);
      return v.lets.back().first.expr();
    }
    if (const Select* s = e.as<Select>()) {
      const bool ahead =
          in_arm || tiles_ || has_load(s->condition) || s->condition.dtype().is_vector();
      return make_select(rewritten(s->condition, in_arm, v), rewritten(s->on_true, ahead, v),
                         rewritten(s->on_false, ahead, v));
    }
    return map_children(e, [&](const Expr& child) { return rewritten(child, in_arm, v); });
  }

  Stmt of_store(const Store& store) const {
    // Tiles are copied to shared memory by stores of their own forms.
    Value v;
    const bool global = store.buffer->scope != Scope::Shared && store.buffer->scope != Scope::Local;
    const Expr value = global ? rewritten(store.value, false, v) : store.value;
    Stmt out = make_store(store.buffer, store.indices, value, store.hint);
    for (size_t i = v.lets.size(); i-- > 0;) out = make_let(v.lets[i].first, v.lets[i].second, out);
    return out;
  }

  const bool tiles_;
  std::unordered_set<const BufferNode*> written_;
  Ranges ranges_;
};

}  // namespace

void predicate_loads(GpuKernel& kernel) {
  if (has_tiles(kernel.body)) kernel.body = rewritten(kernel.body);
}

void load_ahead(GpuKernel& kernel) { kernel.body = LoadsAhead(kernel).run(kernel.body); }

}  // namespace heddle::gpu
