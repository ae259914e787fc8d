#include "ir/linear.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>

namespace heddle {
namespace {

template <class T>
int order(const T& a, const T& b) {
  return a < b ? -1 : (b < a ? 1 : 0);
}

int compare_types(DataType a, DataType b) {
  if (const int c = order(a.code, b.code)) return c;
  if (const int c = order(a.bits, b.bits)) return c;
  return order(a.lanes, b.lanes);
}

// Variables first, so that sums read as people write them.
int rank(ExprKind kind) { return kind == ExprKind::Var ? -1 : static_cast<int>(kind); }

/// The order of two graphs. Pairs of shared nodes that were found equal are remembered. A pair that
/// differs ends the comparison.
class Order {
 public:
  int compare(const Expr& a, const Expr& b) {
    if (a.same_as(b)) return 0;
    if (++steps_ < 64 || !a->shared() || !b->shared()) return compare_nodes(a, b);
    if (const auto it = equal_to_.find(a.get()); it != equal_to_.end() && it->second == b.get())
      return 0;
    if (const int c = compare_nodes(a, b)) return c;
    equal_to_[a.get()] = b.get();
    return 0;
  }

 private:
  int compare_nodes(const Expr& a, const Expr& b) {
    if (const int c = order(rank(a.kind()), rank(b.kind()))) return c;
    if (const int c = compare_types(a.dtype(), b.dtype())) return c;
    switch (a.kind()) {
      case ExprKind::IntImm: return order(a.as<IntImm>()->value, b.as<IntImm>()->value);
      case ExprKind::FloatImm: {
        // Floats are compared by their bits, so that NaN has a place in the order.
        return order(a->hash, b->hash);
      }
      case ExprKind::Var: return order(a.as<VarNode>()->id, b.as<VarNode>()->id);
      case ExprKind::Cast: return compare(a.as<Cast>()->value, b.as<Cast>()->value);
      case ExprKind::Unary:
        if (const int c = order(a.as<Unary>()->op, b.as<Unary>()->op)) return c;
        return compare(a.as<Unary>()->a, b.as<Unary>()->a);
      case ExprKind::Binary: {
        const Binary *x = a.as<Binary>(), *y = b.as<Binary>();
        if (const int c = order(x->op, y->op)) return c;
        if (const int c = compare(x->a, y->a)) return c;
        return compare(x->b, y->b);
      }
      case ExprKind::Select: {
        const Select *x = a.as<Select>(), *y = b.as<Select>();
        if (const int c = compare(x->condition, y->condition)) return c;
        if (const int c = compare(x->on_true, y->on_true)) return c;
        return compare(x->on_false, y->on_false);
      }
      case ExprKind::Load: {
        const Load *x = a.as<Load>(), *y = b.as<Load>();
        if (const int c = order(x->buffer->id, y->buffer->id)) return c;
        return compare_all(x->indices, y->indices);
      }
      case ExprKind::Ramp: {
        const Ramp *x = a.as<Ramp>(), *y = b.as<Ramp>();
        if (const int c = compare(x->base, y->base)) return c;
        return compare(x->stride, y->stride);
      }
      case ExprKind::Broadcast: return compare(a.as<Broadcast>()->value, b.as<Broadcast>()->value);
      case ExprKind::Shuffle:
        if (const int c = order(a.as<Shuffle>()->lane_xor, b.as<Shuffle>()->lane_xor)) return c;
        return compare(a.as<Shuffle>()->value, b.as<Shuffle>()->value);
      case ExprKind::Reduce: return compare_reduce(*a.as<Reduce>(), *b.as<Reduce>());
    }
    return 0;
  }

  int compare_all(const std::vector<Expr>& a, const std::vector<Expr>& b) {
    if (const int c = order(a.size(), b.size())) return c;
    for (size_t i = 0; i < a.size(); ++i) {
      if (const int c = compare(a[i], b[i])) return c;
    }
    return 0;
  }

  int compare_reduce(const Reduce& x, const Reduce& y) {
    if (const int c = order(x.index, y.index)) return c;
    if (const int c = order(x.combiner->kind, y.combiner->kind)) return c;
    if (const int c = order(x.combiner->name, y.combiner->name)) return c;
    if (const int c = order(x.axes.size(), y.axes.size())) return c;
    for (size_t i = 0; i < x.axes.size(); ++i) {
      if (const int c = order(x.axes[i].var()->id, y.axes[i].var()->id)) return c;
    }
    return compare_all(x.sources, y.sources);
  }

  int steps_ = 0;
  std::unordered_map<const ExprNode*, const ExprNode*> equal_to_;
};

}  // namespace

int compare(const Expr& a, const Expr& b) { return Order().compare(a, b); }

void Linear::add_constant(int64_t value, int64_t times) {
  int64_t product;
  overflow |= __builtin_mul_overflow(value, times, &product) ||
              __builtin_add_overflow(constant, product, &constant);
}

void Linear::add(const Linear& other, int64_t times) {
  overflow |= other.overflow;
  terms.reserve(terms.size() + other.terms.size());
  for (const LinearTerm& t : other.terms) {
    int64_t c;
    overflow |= __builtin_mul_overflow(t.coefficient, times, &c);
    add(t.expr, c);
  }
  add_constant(other.constant, times);
}

void Linear::scale(int64_t k) {
  if (k == 0) {
    terms.clear();
    constant = 0;
    return;
  }
  for (LinearTerm& t : terms) {
    overflow |= __builtin_mul_overflow(t.coefficient, k, &t.coefficient);
  }
  overflow |= __builtin_mul_overflow(constant, k, &constant);
}

void Linear::normalize() {
  if (terms.size() < 2) return;
  std::sort(terms.begin(), terms.end(),
            [](const LinearTerm& a, const LinearTerm& b) { return compare(a.expr, b.expr) < 0; });
  size_t kept = 0;
  for (size_t i = 0; i < terms.size(); ++i) {
    if (kept > 0 && equal(terms[kept - 1].expr, terms[i].expr)) {
      int64_t& c = terms[kept - 1].coefficient;
      overflow |= __builtin_add_overflow(c, terms[i].coefficient, &c);
    } else {
      if (kept > 0 && terms[kept - 1].coefficient == 0) --kept;
      if (kept != i) terms[kept] = std::move(terms[i]);
      ++kept;
    }
  }
  if (kept > 0 && terms[kept - 1].coefficient == 0) --kept;
  terms.resize(kept);
}

int64_t Linear::coefficient(const Expr& term) const {
  for (const LinearTerm& t : terms) {
    if (equal(t.expr, term)) return t.coefficient;
  }
  return 0;
}

Linear difference(const Linear& a, const Linear& b) {
  Linear d = a;
  d.add(b, -1);
  d.normalize();
  return d;
}

bool same(const Linear& a, const Linear& b) {
  if (a.constant != b.constant || a.terms.size() != b.terms.size()) return false;
  for (size_t i = 0; i < a.terms.size(); ++i) {
    if (a.terms[i].coefficient != b.terms[i].coefficient ||
        !equal(a.terms[i].expr, b.terms[i].expr)) {
      return false;
    }
  }
  return true;
}

int64_t gcd_of_coefficients(const Linear& a) {
  uint64_t g = 0;
  for (const LinearTerm& t : a.terms) {
    const uint64_t c = static_cast<uint64_t>(t.coefficient);
    g = std::gcd(g, t.coefficient < 0 ? 0 - c : c);
  }
  // 2^63 does not fit an int64_t. Such a form is not divided.
  return g > static_cast<uint64_t>(INT64_MAX) ? 1 : static_cast<int64_t>(g);
}

namespace {

class SumCollector {
 public:
  void collect(const Expr& e, int64_t times, Linear& out) {
    if (const IntImm* imm = e.as<IntImm>()) return out.add_constant(imm->value, times);
    // Most sums are complete before a table would be faster.
    if (++steps_ < 64 || !e->shared()) return parts(e, times, out);
    if (const auto it = done_.find(e.get()); it != done_.end()) return out.add(it->second, times);
    Linear own;
    parts(e, 1, own);
    own.normalize();
    out.add(own, times);
    done_.emplace(e.get(), std::move(own));
  }

 private:
  void parts(const Expr& e, int64_t times, Linear& out) {
    const auto scaled = [&](const Expr& child, int64_t k) {
      int64_t product;
      out.overflow |= __builtin_mul_overflow(times, k, &product);
      collect(child, product, out);
    };
    if (const Binary* b = e.as<Binary>()) {
      if (b->op == BinaryOp::Add || b->op == BinaryOp::Sub) {
        collect(b->a, times, out);
        return scaled(b->b, b->op == BinaryOp::Add ? 1 : -1);
      }
      if (b->op == BinaryOp::Mul) {
        if (const IntImm* k = b->b.as<IntImm>()) return scaled(b->a, k->value);
        if (const IntImm* k = b->a.as<IntImm>()) return scaled(b->b, k->value);
      }
    }
    if (const Unary* u = e.as<Unary>(); u && u->op == UnaryOp::Neg) return scaled(u->a, -1);
    out.add(e, times);
  }

  int steps_ = 0;
  std::unordered_map<const ExprNode*, Linear> done_;  ///< of shared nodes
};

}  // namespace

void collect_canonical(const Expr& e, int64_t times, Linear& out) {
  SumCollector().collect(e, times, out);
}

Linear canonical_linear(const Expr& e) {
  Linear out;
  collect_canonical(e, 1, out);
  out.normalize();
  return out;
}

Expr to_expr(const Linear& a) {
  Expr sum;
  const auto times = [](const LinearTerm& t, int64_t k) {
    return k == 1 ? t.expr : make_binary(BinaryOp::Mul, t.expr, k);
  };
  for (const LinearTerm& t : a.terms) {
    if (t.coefficient < 0) continue;
    Expr term = times(t, t.coefficient);
    sum = sum.defined() ? make_binary(BinaryOp::Add, std::move(sum), std::move(term))
                        : std::move(term);
  }
  bool constant_done = false;
  for (const LinearTerm& t : a.terms) {
    if (t.coefficient > 0) continue;
    if (!sum.defined() && a.constant != 0) {
      sum = a.constant;
      constant_done = true;
    }
    if (!sum.defined()) {
      sum = t.coefficient == -1 ? make_unary(UnaryOp::Neg, t.expr) : times(t, t.coefficient);
    } else if (t.coefficient == INT64_MIN) {
      sum = make_binary(BinaryOp::Add, std::move(sum), times(t, t.coefficient));
    } else {
      sum = make_binary(BinaryOp::Sub, std::move(sum), times(t, -t.coefficient));
    }
  }
  if (!sum.defined()) return a.constant;
  if (!constant_done && a.constant != 0) {
    sum = make_binary(BinaryOp::Add, std::move(sum), a.constant);
  }
  return sum;
}

namespace {

/// Whether `e` itself, without its operands, may trap where its value is not needed.
bool faults(const Expr& e) {
  if (e.kind() == ExprKind::Load) return true;
  if (const Binary* b = e.as<Binary>(); b && b->a.dtype().is_integral()) {
    switch (b->op) {
      case BinaryOp::Div:
      case BinaryOp::Mod:
      case BinaryOp::FloorDiv:
      case BinaryOp::FloorMod:
        if (const int64_t* c = as_int(b->b); !c || *c == 0) return true;
        break;
      default: break;
    }
  }
  return false;
}

}  // namespace

bool may_fault(const Expr& e) { return any_below(e, faults); }

bool has_load(const Expr& e) {
  return any_below(e, [](const Expr& x) { return x.kind() == ExprKind::Load; });
}

}  // namespace heddle
