// i64 vectors: sums of ramps and broadcasts become one ramp; other operators are resolved on the
// scalar that lane number `lane` holds.
#include "ir/simplify/simplifier.h"

namespace heddle {
namespace {

/// Stands for the number of the lane, 0 to lanes - 1. It is never part of a result.
const Var& lane() {
  static const Var v("lane");
  return v;
}

Expr emit(const Linear& base, const Linear& stride, int lanes) {
  return make_ramp(to_expr(base), to_expr(stride), lanes);
}

}  // namespace

// `whole` says that `e` is the expression being simplified, and not a part of it.
void Simplifier::collect_vector(const Expr& e, int64_t times, VectorForm& out, bool whole) {
  const auto structure = [&](const Expr& v) {  // v is canonical
    if (const Ramp* r = v.as<Ramp>()) {
      out.base.add(canonical_linear(r->base), times);
      out.stride.add(canonical_linear(r->stride), times);
    } else if (const Broadcast* b = v.as<Broadcast>()) {
      out.base.add(canonical_linear(b->value), times);
    } else {
      out.atoms.add(v, times);
    }
  };
  const auto scaled = [&](const Expr& v, int64_t by) {
    int64_t k;
    out.base.overflow |= __builtin_mul_overflow(times, by, &k);
    collect_vector(v, k, out);
  };
  // A graph may stand for an exponentially larger sum. Its shared parts then stay terms.
  if (++visits_ > kMostBeforeSharing && e->shared() && !whole) return structure(expr(e));
  if (const Broadcast* b = e.as<Broadcast>()) return out.base.add(linear(b->value), times);
  if (const Ramp* r = e.as<Ramp>()) {
    out.base.add(linear(r->base), times);
    return out.stride.add(linear(r->stride), times);
  }
  if (const Unary* u = e.as<Unary>(); u && u->op == UnaryOp::Neg) return scaled(u->a, -1);
  const Binary* b = e.as<Binary>();
  if (!b || (b->op != BinaryOp::Add && b->op != BinaryOp::Sub && b->op != BinaryOp::Mul)) {
    return structure(expr(e));
  }
  if (b->op != BinaryOp::Mul) {
    collect_vector(b->a, times, out);
    return scaled(b->b, b->op == BinaryOp::Add ? 1 : -1);
  }
  if (const int64_t* c = as_int(b->b)) return scaled(b->a, *c);
  if (const int64_t* c = as_int(b->a)) return scaled(b->b, *c);
  const Expr x = expr(b->a), y = expr(b->b);
  if (const int64_t* c = as_int(y)) return scaled(x, *c);
  if (const int64_t* c = as_int(x)) return scaled(y, *c);
  for (const auto& [ramp, factor] : {std::pair{&x, &y}, std::pair{&y, &x}}) {
    const Ramp* r = ramp->as<Ramp>();
    const Broadcast* f = factor->as<Broadcast>();
    if (!f || (!r && !ramp->as<Broadcast>())) continue;
    const Linear k = canonical_linear(f->value);
    const Expr& base = r ? r->base : ramp->as<Broadcast>()->value;
    out.base.add(product(canonical_linear(base), k), times);
    if (r) out.stride.add(product(canonical_linear(r->stride), k), times);
    return;
  }
  const bool in_order = compare(x, y) <= 0;
  out.atoms.add(make_binary(BinaryOp::Mul, in_order ? x : y, in_order ? y : x), times);
}

Expr Simplifier::vector_sum(const Expr& e) {
  VectorForm form;
  collect_vector(e, 1, form, true);
  finish(form.base);
  finish(form.stride);
  form.atoms.normalize();
  const int lanes = e.dtype().lanes;
  if (form.base.overflow || form.stride.overflow || form.atoms.overflow) {
    return map_children(e, [this](const Expr& child) { return expr(child); });
  }
  const bool structured = !same(form.base, Linear(0)) || !same(form.stride, Linear(0));
  if (form.atoms.terms.empty()) return emit(form.base, form.stride, lanes);
  Expr atoms = to_expr(form.atoms);
  return structured ? make_binary(BinaryOp::Add, atoms, emit(form.base, form.stride, lanes))
                    : atoms;
}

std::optional<Expr> Simplifier::lane_expr(const Expr& e) {
  if (const Broadcast* b = e.as<Broadcast>()) return b->value;
  if (const Ramp* r = e.as<Ramp>()) return r->base + r->stride * lane();
  return std::nullopt;
}

Expr Simplifier::vector_binary(const Expr& e, const Binary& b) {
  if (b.op == BinaryOp::Add || b.op == BinaryOp::Sub || b.op == BinaryOp::Mul) {
    return vector_sum(e);
  }
  const Expr x = expr(b.a), y = expr(b.b);
  const auto unresolved = [&] { return make_binary(b.op, x, y); };
  const std::optional<Expr> sx = lane_expr(x), sy = lane_expr(y);
  const int lanes = b.a.dtype().lanes;
  if (!sx || !sy) return unresolved();
  Assumption scope(*this);
  scope.set(lane(), {0, lanes - 1});
  if (e.dtype().is_bool()) {
    const Expr c = compare_i64(b.op, *sx, *sy);
    return uses_var(c, lane()) ? unresolved() : make_broadcast(c, lanes);
  }
  if (as_int(x) && as_int(y)) return unresolved();  // undefined, or it would have folded
  const Expr scalar = make_binary(b.op, *sx, *sy);
  const Linear form = scalar.kind() == ExprKind::Binary ? linear(scalar) : canonical_linear(scalar);
  if (form.overflow) return unresolved();
  Linear base(form.constant), stride;
  for (const LinearTerm& t : form.terms) {
    if (t.expr.get() == lane().get()) {
      stride.add_constant(t.coefficient);
    } else if (!uses_var(t.expr, lane())) {
      base.add(t.expr, t.coefficient);
    } else {
      const Binary* m = t.expr.as<Binary>();
      if (!m || m->op != BinaryOp::Mul || m->b.get() != lane().get() || uses_var(m->a, lane())) {
        return unresolved();
      }
      stride.add(m->a, t.coefficient);
    }
  }
  base.normalize();
  stride.normalize();
  return emit(base, stride, lanes);
}

}  // namespace heddle
