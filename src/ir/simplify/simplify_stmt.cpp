// Statements: loops give the ranges of their variables, branches their conditions.
#include "ir/simplify/simplifier.h"

namespace heddle {

Stmt Simplifier::stmt(const Stmt& s) {
  if (!s) return s;
  switch (s.kind()) {
    case StmtKind::For: return loop(s, *s.as<For>());
    case StmtKind::If: return branch(s, *s.as<If>());
    case StmtKind::Let: return let(s, *s.as<Let>());
    case StmtKind::Store:
    case StmtKind::Allocate:
    case StmtKind::Block:
    case StmtKind::Prefetch:
    case StmtKind::Sync:
    case StmtKind::TileOp: break;
  }
  return map_children(
      s, [this](const Stmt& child) { return stmt(child); },
      [this](const Expr& e) { return whole(e); });
}

// i < x / c says i*c + c <= x; i < min(a, b) says both.
void Simplifier::assume_below_quotient(const Var& i, const Expr& limit) {
  const Binary* b = limit.as<Binary>();
  if (!b) return;
  if (b->op == BinaryOp::Min) {
    assume_below_quotient(i, b->a);
    assume_below_quotient(i, b->b);
  }
  const int64_t* c = b->op == BinaryOp::FloorDiv ? as_int(b->b) : nullptr;
  if (!c || *c <= 1) return;
  Linear below = difference(Linear(i, *c), canonical_linear(b->a));
  below.add_constant(*c - 1);
  assume_negative(below);
}

Stmt Simplifier::loop(const Stmt& s, const For& f) {
  const Expr extent = whole(f.extent);
  const Linear n = canonical_linear(extent);
  const Interval r = range(n);
  if (r.max <= 0) return {};
  Assumption inside(*this);
  inside.set(f.var, {0, r.max == Interval::kPosInf ? r.max : r.max - 1});
  if (!r.is_point() && !has_load(extent)) {
    inside.add_negative(difference(Linear(f.var, 1), n));
    assume_below_quotient(f.var, extent);
  }
  Stmt body = stmt(f.body);
  // The variable was known to be 0, so nothing uses it any more. Loops over threads and blocks
  // stay, because they say which threads and blocks of a GPU kernel run the body. A loop that marks
  // a tile stays too.
  const bool says_who = is_thread(f.loop) || is_cluster(f.loop) || f.loop == LoopKind::LastBlock ||
                        is_tensorized(f.loop);
  if (r.is_point() && r.min == 1 && !says_who) return body;
  if (extent.same_as(f.extent) && body.same_as(f.body)) return s;
  return make_for(f.var, extent, f.loop, std::move(body));
}

Stmt Simplifier::branch(const Stmt& s, const If& f) {
  const Expr condition = whole(f.condition);
  if (const int64_t* known = as_int(condition)) return stmt(*known ? f.then_body : f.else_body);
  Stmt bodies[2];
  for (const bool value : {true, false}) {
    Assumption inside(*this);
    inside.add(condition, value);
    bodies[value] = stmt(value ? f.then_body : f.else_body);
  }
  if (!bodies[1]) return bodies[0] ? make_if(negation(condition), bodies[0]) : Stmt();
  if (condition.same_as(f.condition) && bodies[1].same_as(f.then_body) &&
      bodies[0].same_as(f.else_body)) {
    return s;
  }
  return make_if(condition, bodies[1], bodies[0]);
}

Stmt Simplifier::let(const Stmt& s, const Let& l) {
  const Expr value = whole(l.value);
  if (is_const(value) && (value.dtype() == i64 || value.dtype() == boolean))
    return stmt(substitute(l.body, {{l.var, value}}));
  Assumption inside(*this);
  if (value.dtype() == i64 || value.dtype() == boolean) {
    inside.set(l.var, value.dtype() == i64 ? range(canonical_linear(value))
                                           : structural_range(value, ranges_));
  }
  if (value.dtype() == i64 && !has_load(value)) {
    Linear d = difference(Linear(l.var, 1), canonical_linear(value));
    for (int i = 0; i < 2; ++i) {
      Linear at_most_zero = d;
      at_most_zero.add_constant(-1);
      inside.add_negative(at_most_zero);
      d.scale(-1);
    }
  }
  Stmt body = stmt(l.body);
  if (value.same_as(l.value) && body.same_as(l.body)) return s;
  return make_let(l.var, value, std::move(body));
}

}  // namespace heddle
