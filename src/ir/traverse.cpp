// Walking, rebuilding and comparing expressions.
#include <algorithm>
#include <bit>
#include <unordered_map>

#include "heddle/ir/expr.h"
#include "ir/depth.h"

namespace heddle {
namespace {

bool same_combiner(const Combiner& a, const Combiner& b) {
  return &a == &b || (a.kind == b.kind && a.kind != ReduceKind::Custom);
}

/// Deep equality of two graphs. Pairs of shared nodes that were found equal are remembered. A pair
/// that differs ends the comparison.
class Equality {
 public:
  bool equal(const Expr& a, const Expr& b) {
    if (a.same_as(b)) return true;
    if (!a.defined() || !b.defined() || a->hash != b->hash || a.kind() != b.kind() ||
        a.dtype() != b.dtype()) {
      return false;
    }
    // Most comparisons end before a table would be faster.
    if (++steps_ < 64 || !a->shared() || !b->shared()) return equal_nodes(a, b);
    if (const auto it = equal_to_.find(a.get()); it != equal_to_.end() && it->second == b.get())
      return true;
    if (!equal_nodes(a, b)) return false;
    equal_to_[a.get()] = b.get();
    return true;
  }

 private:
  bool equal_nodes(const Expr& a, const Expr& b) {
    switch (a.kind()) {
      case ExprKind::IntImm: return a.as<IntImm>()->value == b.as<IntImm>()->value;
      case ExprKind::FloatImm:
        return std::bit_cast<uint64_t>(a.as<FloatImm>()->value) ==
               std::bit_cast<uint64_t>(b.as<FloatImm>()->value);
      case ExprKind::Var: return false;  // variables are compared by identity
      case ExprKind::Cast: return equal(a.as<Cast>()->value, b.as<Cast>()->value);
      case ExprKind::Unary: {
        const Unary *x = a.as<Unary>(), *y = b.as<Unary>();
        return x->op == y->op && equal(x->a, y->a);
      }
      case ExprKind::Binary: {
        const Binary *x = a.as<Binary>(), *y = b.as<Binary>();
        return x->op == y->op && equal(x->a, y->a) && equal(x->b, y->b);
      }
      case ExprKind::Select: {
        const Select *x = a.as<Select>(), *y = b.as<Select>();
        return equal(x->condition, y->condition) && equal(x->on_true, y->on_true) &&
               equal(x->on_false, y->on_false);
      }
      case ExprKind::Load: {
        const Load *x = a.as<Load>(), *y = b.as<Load>();
        return x->buffer == y->buffer && all_equal(x->indices, y->indices);
      }
      case ExprKind::Ramp: {
        const Ramp *x = a.as<Ramp>(), *y = b.as<Ramp>();
        return equal(x->base, y->base) && equal(x->stride, y->stride);
      }
      case ExprKind::Broadcast: return equal(a.as<Broadcast>()->value, b.as<Broadcast>()->value);
      case ExprKind::Reduce: return equal_reduce(*a.as<Reduce>(), *b.as<Reduce>());
      case ExprKind::Shuffle: {
        const Shuffle *x = a.as<Shuffle>(), *y = b.as<Shuffle>();
        return x->lane_xor == y->lane_xor && equal(x->value, y->value);
      }
    }
    return false;
  }

  bool equal_reduce(const Reduce& x, const Reduce& y) {
    if (x.index != y.index || x.axes.size() != y.axes.size()) return false;
    for (size_t i = 0; i < x.axes.size(); ++i) {
      if (!x.axes[i].same_as(y.axes[i])) return false;
    }
    return same_combiner(*x.combiner, *y.combiner) && all_equal(x.sources, y.sources);
  }

  bool all_equal(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    if (a.size() != b.size()) return false;
    for (size_t i = 0; i < a.size(); ++i) {
      if (!equal(a[i], b[i])) return false;
    }
    return true;
  }

  int steps_ = 0;
  std::unordered_map<const ExprNode*, const ExprNode*> equal_to_;
};

/// Applies `fn` to each element of `in`. Returns whether any changed.
bool map_all(const std::vector<Expr>& in, std::vector<Expr>& out,
             FunctionRef<Expr(const Expr&)> fn) {
  bool changed = false;
  out.reserve(in.size());
  for (const Expr& e : in) {
    out.push_back(fn(e));
    changed |= !out.back().same_as(e);
  }
  return changed;
}

class Substitution {
 public:
  explicit Substitution(const std::vector<VarBinding>& bindings) : bindings_(bindings) {}

  Expr apply(const Expr& e) {
    if (!e.defined()) return e;
    switch (e.kind()) {
      case ExprKind::IntImm:
      case ExprKind::FloatImm: return e;
      case ExprKind::Var:
        for (const VarBinding& b : bindings_) {
          if (b.var.get() == e.get()) return b.value;
        }
        return e;
      default: break;
    }
    const bool remember = e->shared();
    if (remember) {
      if (auto it = done_.find(e.get()); it != done_.end()) return it->second;
    }
    Expr result = map_children(e, [this](const Expr& child) { return apply(child); });
    if (remember) done_.emplace(e.get(), result);
    return result;
  }

 private:
  const std::vector<VarBinding>& bindings_;
  std::unordered_map<const ExprNode*, Expr> done_;
};

/// any_below for what is very deep: the nodes that are still to be visited are on the heap.
bool any_far_below(const Expr& e, FunctionRef<bool(const Expr&)> fn, SeenNodes& seen) {
  std::vector<const Expr*> open{&e}, children;
  while (!open.empty()) {
    const Expr& next = *open.back();
    open.pop_back();
    if (!seen.first(next)) continue;
    if (fn(next)) return true;
    children.clear();
    for_each_child(next, [&](const Expr& child) { children.push_back(&child); });
    open.insert(open.end(), children.rbegin(), children.rend());
  }
  return false;
}

bool any_below(const Expr& e, FunctionRef<bool(const Expr&)> fn, SeenNodes& seen, int depth) {
  constexpr int kDeep = 512;
  if (depth == kDeep) return any_far_below(e, fn, seen);
  if (!seen.first(e)) return false;
  if (fn(e)) return true;
  bool found = false;
  for_each_child(
      e, [&](const Expr& child) { found = found || any_below(child, fn, seen, depth + 1); });
  return found;
}

/// The height of `e`, or more than `most` where it is higher. `heights` are those of shared nodes.
int height(const Expr& e, int most, std::unordered_map<const ExprNode*, int>& heights) {
  if (most == 0) return 1;
  const bool remember = e->shared() && !SeenNodes::is_leaf(e);
  if (remember) {
    if (const auto it = heights.find(e.get()); it != heights.end()) return it->second;
  }
  int below = 0;
  for_each_child(e, [&](const Expr& child) {
    if (below < most) below = std::max(below, height(child, most - 1, heights));
  });
  if (remember && below < most) heights.emplace(e.get(), below + 1);
  return below + 1;
}

}  // namespace

bool equal(const Expr& a, const Expr& b) { return Equality().equal(a, b); }

Expr map_children(const Expr& e, FunctionRef<Expr(const Expr&)> fn) {
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
    case ExprKind::Var: return e;
    case ExprKind::Cast: {
      const Cast* n = e.as<Cast>();
      Expr value = fn(n->value);
      return value.same_as(n->value) ? e : cast(n->dtype.element(), std::move(value));
    }
    case ExprKind::Unary: {
      const Unary* n = e.as<Unary>();
      Expr a = fn(n->a);
      return a.same_as(n->a) ? e : make_unary(n->op, std::move(a));
    }
    case ExprKind::Binary: {
      const Binary* n = e.as<Binary>();
      Expr a = fn(n->a), b = fn(n->b);
      if (a.same_as(n->a) && b.same_as(n->b)) return e;
      return make_binary(n->op, std::move(a), std::move(b));
    }
    case ExprKind::Select: {
      const Select* n = e.as<Select>();
      Expr c = fn(n->condition), t = fn(n->on_true), f = fn(n->on_false);
      if (c.same_as(n->condition) && t.same_as(n->on_true) && f.same_as(n->on_false)) return e;
      return make_select(std::move(c), std::move(t), std::move(f));
    }
    case ExprKind::Load: {
      const Load* n = e.as<Load>();
      std::vector<Expr> indices;
      return map_all(n->indices, indices, fn) ? make_load(n->buffer, std::move(indices)) : e;
    }
    case ExprKind::Ramp: {
      const Ramp* n = e.as<Ramp>();
      Expr base = fn(n->base), stride = fn(n->stride);
      if (base.same_as(n->base) && stride.same_as(n->stride)) return e;
      return make_ramp(std::move(base), std::move(stride), n->dtype.lanes);
    }
    case ExprKind::Broadcast: {
      const Broadcast* n = e.as<Broadcast>();
      Expr value = fn(n->value);
      return value.same_as(n->value) ? e : make_broadcast(std::move(value), n->dtype.lanes);
    }
    case ExprKind::Shuffle: {
      const Shuffle* n = e.as<Shuffle>();
      Expr value = fn(n->value);
      return value.same_as(n->value) ? e : make_shuffle(std::move(value), n->lane_xor);
    }
    case ExprKind::Reduce: {
      const Reduce* n = e.as<Reduce>();
      std::vector<Expr> sources;
      if (!map_all(n->sources, sources, fn)) return e;
      return make_reduce(n->combiner, std::move(sources), n->axes, n->index);
    }
  }
  return e;
}

void for_each_child(const Expr& e, FunctionRef<void(const Expr&)> fn) {
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm:
    case ExprKind::Var: return;
    case ExprKind::Cast: fn(e.as<Cast>()->value); return;
    case ExprKind::Unary: fn(e.as<Unary>()->a); return;
    case ExprKind::Binary:
      fn(e.as<Binary>()->a);
      fn(e.as<Binary>()->b);
      return;
    case ExprKind::Select:
      fn(e.as<Select>()->condition);
      fn(e.as<Select>()->on_true);
      fn(e.as<Select>()->on_false);
      return;
    case ExprKind::Load:
      for (const Expr& i : e.as<Load>()->indices) fn(i);
      return;
    case ExprKind::Ramp:
      fn(e.as<Ramp>()->base);
      fn(e.as<Ramp>()->stride);
      return;
    case ExprKind::Broadcast: fn(e.as<Broadcast>()->value); return;
    case ExprKind::Shuffle: fn(e.as<Shuffle>()->value); return;
    case ExprKind::Reduce:
      for (const Expr& s : e.as<Reduce>()->sources) fn(s);
      return;
  }
}

bool SeenNodes::add(const ExprNode* node) {
  const ExprNode** end = few_ + count_;
  if (std::find(few_, end, node) != end) return false;
  if (count_ < kFew) {
    few_[count_++] = node;
    return true;
  }
  return many_.insert(node).second;
}

void visit(const Expr& e, FunctionRef<void(const Expr&)> fn) {
  (void)any_below(e, [&](const Expr& x) {
    fn(x);
    return false;
  });
}

bool any_below(const Expr& e, FunctionRef<bool(const Expr&)> fn) {
  SeenNodes seen;
  return e.defined() && any_below(e, fn, seen, 0);
}

int height_up_to(const Expr& e, int most) {
  std::unordered_map<const ExprNode*, int> heights;
  return height(e, most, heights);
}

bool is_too_deep(const Expr& e) { return height_up_to(e, kDeepestExpression) > kDeepestExpression; }

bool uses_var(const Expr& e, const Var& v) {
  return any_below(e, [&](const Expr& x) { return x.get() == v.get(); });
}

Expr substitute(const Expr& e, const std::vector<VarBinding>& bindings) {
  return Substitution(bindings).apply(e);
}

}  // namespace heddle
