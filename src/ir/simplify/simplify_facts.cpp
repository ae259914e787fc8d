// The facts inside a branch or loop: ranges of variables, linear forms that are negative, and
// conditions without further structure.
#include "ir/simplify/simplifier.h"

namespace heddle {

Assumption::~Assumption() {
  const bool changed =
      s_.undo_.size() > undo_ || s_.facts_.size() > facts_ || s_.conditions_.size() > conditions_;
  while (s_.undo_.size() > undo_) {
    const Simplifier::Undo& u = s_.undo_.back();
    // The handle is temporary: Ranges are keyed by the node.
    const Var v = Var::from(Expr(u.var));
    if (u.before) {
      s_.ranges_.set(v, *u.before);
    } else {
      s_.ranges_.erase(v);
    }
    s_.undo_.pop_back();
  }
  s_.facts_.resize(facts_);
  s_.conditions_.resize(conditions_);
  if (changed) s_.done_.clear();
}

void Simplifier::narrow(const VarNode* v, Interval r) {
  const bool known = ranges_.known(v);
  const Interval before = ranges_.get(v), after = intersect(before, r);
  if (known && after == before) return;
  // A contradiction means that the branch never runs. An empty range is not recorded.
  if (after.min > after.max) return;
  undo_.push_back({v, known ? std::optional(before) : std::nullopt});
  ranges_.set(Var::from(Expr(v)), after);
  done_.clear();
}

void Simplifier::assume(const Expr& c, bool value) {
  if (const Unary* u = c.as<Unary>(); u && u->op == UnaryOp::Not) return assume(u->a, !value);
  if (c.dtype() != boolean || is_const(c)) return;
  if (const Binary* b = c.as<Binary>()) {
    if (b->op == BinaryOp::And || b->op == BinaryOp::Or) {
      // All parts of a true "and" hold, and none of a false "or".
      if ((b->op == BinaryOp::And) == value) {
        assume(b->a, value);
        assume(b->b, value);
        return;
      }
    } else if (b->a.dtype() == i64) {
      // After a store, the same load may give another value.
      if (has_load(c)) return;
      Linear d = difference(canonical_linear(b->a), canonical_linear(b->b));
      if (d.overflow) return;
      Linear opposite = d;
      opposite.scale(-1);
      const auto at_most = [](Linear x, int64_t bound) {  // x <= bound as x - bound - 1 < 0
        x.add_constant(-bound - 1);
        return x;
      };
      switch (b->op) {
        case BinaryOp::Lt: assume_negative(value ? d : at_most(opposite, 0)); return;
        case BinaryOp::Le: assume_negative(value ? at_most(d, 0) : opposite); return;
        case BinaryOp::Eq:
        case BinaryOp::Ne: {
          if ((b->op == BinaryOp::Eq) == value) {
            assume_negative(at_most(d, 0));
            assume_negative(at_most(opposite, 0));
            return;
          }
          // A value that is known not to occur is removed from a range that ends there.
          const Interval r = range(d);
          if (r.min == 0) assume_negative(opposite);
          if (r.max == 0) assume_negative(d);
          break;
        }
        default: break;
      }
    }
    if (b->a.dtype() != i64 && b->a.dtype() != boolean)
      return;  // comparisons of floats give no facts
  }
  if (has_load(c)) return;
  conditions_.push_back({c, value});
  done_.clear();
}

void Simplifier::assume_negative(const Linear& d) {
  if (d.overflow || d.terms.empty()) return;
  // x < min(p, q) says x < p and x < q; max(p, q) < x likewise.
  for (const LinearTerm& t : d.terms) {
    const Binary* b = t.expr.as<Binary>();
    if (!b) continue;
    if (!(b->op == BinaryOp::Min && t.coefficient == -1) &&
        !(b->op == BinaryOp::Max && t.coefficient == 1)) {
      continue;
    }
    for (const Expr* arm : {&b->a, &b->b}) {
      Linear with_arm = d;
      with_arm.add(t.expr, -t.coefficient);
      with_arm.add(canonical_linear(*arm), t.coefficient);
      with_arm.normalize();
      assume_negative(with_arm);
    }
    break;
  }
  for (const LinearTerm& t : d.terms) {
    const VarNode* v = t.expr.as<VarNode>();
    if (!v) continue;
    Interval rest{d.constant, d.constant};
    for (const LinearTerm& o : d.terms) {
      if (&o == &t) continue;
      rest = heddle::add(rest, multiply(structural_range(o.expr, ranges_), o.coefficient));
    }
    if (rest.min == Interval::kNegInf) continue;
    // k*v + rest <= -1 for the smallest rest.
    const Interval bound = heddle::add({-1, -1}, negate({rest.min, rest.min}));
    if (!bound.bounded()) continue;
    if (t.coefficient > 0) {
      narrow(v, {Interval::kNegInf, floor_div(bound, {t.coefficient, t.coefficient}).max});
    } else if (t.coefficient != INT64_MIN) {
      const int64_t k = -t.coefficient;  // k*v >= -bound
      const Interval low = negate(floor_div(bound, {k, k}));
      narrow(v, {low.min, Interval::kPosInf});
    }
  }
  if (d.terms.size() > 1 || d.terms[0].expr.kind() != ExprKind::Var) {
    facts_.push_back(d);
    done_.clear();
  }
}

Interval Simplifier::refine_by_facts(const Linear& a, Interval r) {
  for (const Linear& fact : facts_) {
    // a == m*fact + rest, where m makes the first term of the fact cancel.
    const int64_t there = a.coefficient(fact.terms[0].expr);
    const int64_t k = fact.terms[0].coefficient;
    if (there == 0 || there == INT64_MIN || there % k != 0) continue;
    const int64_t m = there / k;
    Linear rest = a;
    rest.add(fact, -m);
    rest.normalize();
    if (rest.overflow || rest.terms.size() + 1 > a.terms.size()) continue;
    Interval bound{rest.constant, rest.constant};
    for (const LinearTerm& t : rest.terms) {
      bound = heddle::add(bound, multiply(structural_range(t.expr, ranges_), t.coefficient));
    }
    // fact <= -1
    const Interval of_fact = multiply({Interval::kNegInf, -1}, m);
    const Interval better = intersect(r, heddle::add(bound, of_fact));
    if (better.min <= better.max) r = better;
  }
  return r;
}

const bool* Simplifier::known_condition(const Expr& e) const {
  for (const Condition& c : conditions_) {
    if (equal(c.expr, e)) return &c.value;
  }
  return nullptr;
}

}  // namespace heddle
