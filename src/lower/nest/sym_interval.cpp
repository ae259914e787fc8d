#include "lower/nest/sym_interval.h"

#include <algorithm>
#include <unordered_map>

namespace heddle::lowering {
namespace {

struct Evaluator {
  const SymEnv& env;
  const Ranges& ranges;

  bool touched(const Expr& e) const {
    return any_below(e, [&](const Expr& x) {
      const VarNode* v = x.as<VarNode>();
      return v && env.count(v) != 0;
    });
  }
  // Whether some variable of `env` occurs on both sides.
  bool share_variable(const Expr& a, const Expr& b) const {
    return any_below(a, [&](const Expr& x) {
      const VarNode* v = x.as<VarNode>();
      return v && env.count(v) && uses_var(b, Var::from(x));
    });
  }
  static SymInterval unknown() { return {Expr(), Expr(), false}; }

  std::unordered_map<const ExprNode*, SymInterval> done{};  // of shared nodes

  SymInterval eval(const Expr& e) {
    if (!e->shared() || SeenNodes::is_leaf(e)) return eval_node(e);
    if (const auto it = done.find(e.get()); it != done.end()) return it->second;
    return done.emplace(e.get(), eval_node(e)).first->second;
  }

  SymInterval eval_node(const Expr& e) {
    if (const VarNode* v = e.as<VarNode>()) {
      auto it = env.find(v);
      return it == env.end() ? SymInterval{e, e, true} : it->second;
    }
    if (e.kind() == ExprKind::IntImm) return {e, e, true};
    if (e.kind() == ExprKind::Load) return touched(e) ? unknown() : SymInterval{e, e, true};
    if (const Cast* c = e.as<Cast>()) {
      if (c->dtype == i64 && c->value.dtype() == i64) return eval(c->value);
      return touched(e) ? unknown() : SymInterval{e, e, true};
    }
    if (const Select* s = e.as<Select>()) {
      SymInterval a = eval(s->on_true), b = eval(s->on_false);
      if (!a.bounded() || !b.bounded()) return unknown();
      SymInterval r = hull(a, b, ranges);
      r.exact = false;
      return r;
    }
    const Binary* b = e.as<Binary>();
    if (!b) return touched(e) ? unknown() : SymInterval{e, e, true};
    SymInterval x = eval(b->a), y = eval(b->b);
    if (!x.bounded() || !y.bounded()) return unknown();
    // An end that needs both ends of one variable at once, as in i - i % 4, is never reached.
    bool exact = x.exact && y.exact && !share_variable(b->a, b->b);
    switch (b->op) {
      case BinaryOp::Add: return {x.lo + y.lo, x.hi + y.hi, exact};
      case BinaryOp::Sub: return {x.lo - y.hi, x.hi - y.lo, exact};
      case BinaryOp::Mul: {
        const int64_t* c = as_int(b->b);
        const SymInterval& v = c ? x : y;
        if (!c) c = as_int(b->a);
        if (!c)
          return x.lo.same_as(x.hi) && y.lo.same_as(y.hi) ? SymInterval{e, e, exact} : unknown();
        if (*c >= 0) return {v.lo * Expr(*c), v.hi * Expr(*c), exact};
        return {v.hi * Expr(*c), v.lo * Expr(*c), exact};
      }
      case BinaryOp::FloorDiv: {
        const int64_t* c = as_int(b->b);
        if (!c || *c <= 0) break;
        return {floordiv(x.lo, b->b), floordiv(x.hi, b->b), exact};
      }
      case BinaryOp::FloorMod: {
        const int64_t* c = as_int(b->b);
        if (!c || *c <= 0) break;
        if (x.lo.same_as(x.hi)) return {floormod(x.lo, b->b), floormod(x.lo, b->b), exact};
        // Within one period the remainder is as tight as the numerator.
        if (prove(floordiv(x.lo, b->b) == floordiv(x.hi, b->b), ranges)) {
          return {floormod(x.lo, b->b), floormod(x.hi, b->b), exact};
        }
        return {Expr(0), Expr(*c - 1), false};
      }
      case BinaryOp::Min: return {min(x.lo, y.lo), min(x.hi, y.hi), false};
      case BinaryOp::Max: return {max(x.lo, y.lo), max(x.hi, y.hi), false};
      default: break;
    }
    return touched(e) ? unknown() : SymInterval{e, e, true};
  }
};

// `e` with one minimum that it grows with (or a maximum that it falls with) replaced by the operand
// that `first` names, which leaves it as large or makes it larger. Null where there is none.
Expr without_clamp(const Expr& e, bool grows, bool first) {
  const Binary* b = e.as<Binary>();
  if (!b) return {};
  if (b->op == (grows ? BinaryOp::Min : BinaryOp::Max)) return first ? b->a : b->b;
  switch (b->op) {
    case BinaryOp::Add:
      if (const Expr x = without_clamp(b->a, grows, first)) return x + b->b;
      if (const Expr y = without_clamp(b->b, grows, first)) return b->a + y;
      return {};
    case BinaryOp::Sub:
      if (const Expr x = without_clamp(b->a, grows, first)) return x - b->b;
      if (const Expr y = without_clamp(b->b, !grows, first)) return b->a - y;
      return {};
    case BinaryOp::Mul: {
      const int64_t* c = as_int(b->b);
      if (!c) return {};
      const Expr x = without_clamp(b->a, *c >= 0 ? grows : !grows, first);
      return x ? x * b->b : Expr();
    }
    case BinaryOp::FloorDiv: {
      const int64_t* c = as_int(b->b);
      const Expr x = c && *c > 0 ? without_clamp(b->a, grows, first) : Expr();
      return x ? floordiv(x, b->b) : Expr();
    }
    default: return {};
  }
}

int64_t upper_bound(const Expr& e, const Ranges& ranges, int clamps) {
  int64_t least = range_of(e, ranges).max;
  for (const bool first : {true, false}) {
    const Expr x = clamps > 0 ? without_clamp(e, true, first) : Expr();
    if (!x.get()) break;
    least = std::min(least, upper_bound(simplify(x, ranges), ranges, clamps - 1));
  }
  return least;
}

}  // namespace

int64_t upper_bound(const Expr& e, const Ranges& ranges) {
  constexpr int kClamps =
      4;  // clamps that are removed at a time, in two ways each: 30 expressions at most
  return upper_bound(e, ranges, kClamps);
}

SymInterval interval_of(const Expr& e, const SymEnv& env, const Ranges& ranges) {
  SymInterval r = Evaluator{env, ranges}.eval(e);
  if (r.bounded()) {
    r.lo = simplify(r.lo, ranges);
    r.hi = simplify(r.hi, ranges);
  }
  return r;
}

SymInterval hull(const SymInterval& a, const SymInterval& b, const Ranges& ranges) {
  if (!a.bounded() || !b.bounded()) return {Expr(), Expr(), false};
  return {simplify(min(a.lo, b.lo), ranges), simplify(max(a.hi, b.hi), ranges), a.exact && b.exact};
}

}  // namespace heddle::lowering
