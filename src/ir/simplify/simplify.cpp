#include "heddle/ir/simplify.h"

#include "ir/simplify/simplifier.h"
#include "ir/simplify/simplify_rules.h"

namespace heddle {

namespace {

/// Sums, quotients and comparisons are canonical after one pass. Moves between the arms of nested
/// minima or the parts of conditions may allow one more step, about once in 10^5 expressions.
bool may_open_a_step(const Expr& e) {
  if (const Binary* b = e.as<Binary>(); b && e.dtype().is_integral()) {
    switch (b->op) {
      case BinaryOp::Min:
      case BinaryOp::Max:
      case BinaryOp::And:
      case BinaryOp::Or: return true;
      default: break;
    }
  }
  return false;
}

}  // namespace

Expr simplify(const Expr& e, const Ranges& ranges) {
  // Most indices are a variable or a constant.
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm: return e;
    case ExprKind::Var: {
      if (e.dtype() != i64 && e.dtype() != boolean) return e;
      const Interval r = ranges.get(e.as<VarNode>());
      return r.is_point() ? make_int(e.dtype(), r.min) : e;
    }
    default: break;
  }
  Expr result = Simplifier(ranges).expr(e);
  for (int round = 0; round < 3 && !result.same_as(e) && any_below(result, may_open_a_step);
       ++round) {
    Expr next = Simplifier(ranges).expr(result);
    if (next.same_as(result)) break;
    result = std::move(next);
  }
  return result;
}

Stmt simplify(const Stmt& s, const Ranges& ranges) { return Simplifier(ranges).stmt(s); }

bool prove(const Expr& e, const Ranges& ranges) {
  if (range_of(e, ranges).min == 1) return true;
  return is_const(simplify(e, ranges), 1);
}

Expr Simplifier::expr(const Expr& e) {
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm: return e;
    default: break;
  }
  const bool remember = e->shared() && e.kind() != ExprKind::Var;
  if (remember) {
    if (auto it = done_.find(e.get()); it != done_.end()) return it->second.result;
  }
  Expr result = dispatch(e);
  if (e.dtype() == boolean && !conditions_.empty()) {
    if (const bool* known = known_condition(result)) result = Expr(*known);
  }
  // An equal tree that was built anew is replaced by `e`, because callers compare nodes to see a
  // change.
  if (equal(result, e)) result = e;
  if (remember) done_.insert_or_assign(e.get(), Done{e, result});
  return result;
}

Expr Simplifier::dispatch(const Expr& e) {
  ++visits_;
  switch (e.kind()) {
    case ExprKind::IntImm:
    case ExprKind::FloatImm: return e;
    case ExprKind::Var: {
      if (e.dtype() != i64 && e.dtype() != boolean) return e;
      const Interval r = ranges_.get(e.as<VarNode>());
      return r.is_point() ? make_int(e.dtype(), r.min) : e;
    }
    case ExprKind::Unary: return unary(e, *e.as<Unary>());
    case ExprKind::Binary: return binary(e, *e.as<Binary>());
    case ExprKind::Select: return select(e, *e.as<Select>());
    case ExprKind::Reduce: return reduce(e, *e.as<Reduce>());
    case ExprKind::Ramp:
      if (e.dtype().element() == i64) return vector_sum(e);
      break;
    case ExprKind::Cast:
    case ExprKind::Load:
    case ExprKind::Broadcast:
    case ExprKind::Shuffle: break;
  }
  return map_children(e, [this](const Expr& child) { return expr(child); });
}

Expr Simplifier::unary(const Expr& e, const Unary& u) {
  if (u.op == UnaryOp::Neg && e.dtype().element() == i64) {
    return e.dtype().is_scalar() ? to_expr(linear_node(e)) : vector_sum(e);
  }
  if (u.op == UnaryOp::Not && e.dtype() == boolean) return negation(expr(u.a));
  if (u.op == UnaryOp::Abs && e.dtype() == i64) return to_expr(linear_node(e));
  return map_children(e, [this](const Expr& child) { return expr(child); });
}

Expr Simplifier::binary(const Expr& e, const Binary& b) {
  const DataType t = b.a.dtype();
  if (t == i64) {
    switch (b.op) {
      case BinaryOp::Eq:
      case BinaryOp::Ne:
      case BinaryOp::Lt:
      case BinaryOp::Le: return compare_i64(b.op, b.a, b.b);
      case BinaryOp::Add:
      case BinaryOp::Sub:
      case BinaryOp::Mul:
      case BinaryOp::Div:
      case BinaryOp::FloorDiv:
      case BinaryOp::FloorMod:
      case BinaryOp::Mod:
      case BinaryOp::Min:
      case BinaryOp::Max:
      case BinaryOp::Shl:
      case BinaryOp::Shr:
      case BinaryOp::BitAnd: {
        const Linear form = linear_node(e);
        if (form.overflow) break;
        return to_expr(form);
      }
      default: break;
    }
  } else if (t.element() == i64) {
    return vector_binary(e, b);
  } else if (t == boolean && (b.op == BinaryOp::And || b.op == BinaryOp::Or)) {
    return conjunction(e, b.op);
  }
  Expr result = map_children(e, [this](const Expr& child) { return expr(child); });
  if (t == boolean) {
    if (const std::optional<Expr> better = apply_rules(result, ranges_)) return expr(*better);
  }
  return result;
}

Expr Simplifier::reduce(const Expr& e, const Reduce& r) {
  Assumption scope(*this);
  for (const Axis& axis : r.axes) {
    const Interval extent = structural_range(axis->extent, ranges_);
    scope.set(axis.var(), {0, extent.max == Interval::kPosInf ? extent.max : extent.max - 1});
  }
  return map_children(e, [this](const Expr& child) { return expr(child); });
}

}  // namespace heddle
