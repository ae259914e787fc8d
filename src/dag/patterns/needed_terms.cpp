#include "dag/patterns/needed_terms.h"

#include <algorithm>
#include <optional>
#include <unordered_map>

#include "dag/patterns/look_through.h"
#include "heddle/ir/simplify.h"
#include "ir/conjuncts.h"
#include "ir/linear.h"

namespace heddle::dag {
namespace {

// Scores up to this value count as -inf: exp of their difference to the maximum is zero.
constexpr double kMasked = -1e30;
// Conditions that are looked at; those of an attention are a few.
constexpr size_t kMostConditions = 16;

/// What is known of values where a condition does not hold.
class Elsewhere {
 public:
  explicit Elsewhere(const Expr& condition) : condition_(condition) {}

  bool is_zero(const Expr& e) {
    if (const auto it = known_.find(e.get()); it != known_.end()) return it->second;
    return known_[e.get()] = finds_zero(e);
  }

 private:
  enum class Truth { False, True, Unknown };

  Truth truth(const Expr& e) const {
    if (equal(e, condition_)) return Truth::False;
    if (const Unary* u = e.as<Unary>(); u && u->op == UnaryOp::Not) {
      const Truth a = truth(u->a);
      if (a == Truth::Unknown) return a;
      return a == Truth::True ? Truth::False : Truth::True;
    }
    const Binary* b = e.as<Binary>();
    if (!b || (b->op != BinaryOp::And && b->op != BinaryOp::Or)) return Truth::Unknown;
    const Truth decides = b->op == BinaryOp::And ? Truth::False : Truth::True;
    const Truth x = truth(b->a), y = truth(b->b);
    if (x == decides || y == decides) return decides;
    return x == y ? x : Truth::Unknown;
  }

  /// Whether `is` holds for the arms that a select may take.
  template <class Is>
  bool of_arms(const Select& s, Is is) {
    const Truth t = truth(s.condition);
    return (t == Truth::False || is(s.on_true)) && (t == Truth::True || is(s.on_false));
  }

  bool finds_zero(const Expr& e) {
    const auto zero = [&](const Expr& x) { return is_zero(x); };
    if (is_const(e)) return is_const(e, 0);
    if (const Cast* c = e.as<Cast>()) return is_zero(c->value);
    if (const Select* s = e.as<Select>()) return of_arms(*s, zero);
    if (const Unary* u = e.as<Unary>()) {
      if (u->op == UnaryOp::Exp || u->op == UnaryOp::Exp2) return is_lowest(u->a);
      return (u->op == UnaryOp::Neg || u->op == UnaryOp::RoundTf32) && is_zero(u->a);
    }
    const Binary* b = e.as<Binary>();
    if (!b) return false;
    switch (b->op) {
      case BinaryOp::Mul: return is_zero(b->a) || is_zero(b->b);
      case BinaryOp::Div: return is_zero(b->a);
      case BinaryOp::Add:
      case BinaryOp::Sub: return is_zero(b->a) && is_zero(b->b);
      default: return false;
    }
  }

  bool is_lowest(const Expr& e) {
    const auto lowest = [&](const Expr& x) { return is_lowest(x); };
    if (const FloatImm* f = e.as<FloatImm>()) return f->value <= kMasked;
    if (const Cast* c = e.as<Cast>()) return c->dtype.is_float() && is_lowest(c->value);
    if (const Select* s = e.as<Select>()) return of_arms(*s, lowest);
    const Binary* b = e.as<Binary>();
    if (!b) return false;
    const auto is_factor = [](const Expr& x) {
      const FloatImm* f = x.as<FloatImm>();
      return f && f->value >= 1e-3;
    };
    switch (b->op) {
      case BinaryOp::Add: return is_lowest(b->a) || is_lowest(b->b);
      case BinaryOp::Sub: return is_lowest(b->a);
      case BinaryOp::Min: return is_lowest(b->a) || is_lowest(b->b);
      case BinaryOp::Max: return is_lowest(b->a) && is_lowest(b->b);
      case BinaryOp::Mul:
        return (is_lowest(b->a) && is_factor(b->b)) || (is_lowest(b->b) && is_factor(b->a));
      default: return false;
    }
  }

  const Expr& condition_;
  std::unordered_map<const ExprNode*, bool> known_;
};

class Finder {
 public:
  explicit Finder(const Operation& op) : op_(op) {}

  NeededTerms run(const Expr& term) {
    for (const Expr& c : conditions(term)) {
      NeededTerms bound = bound_of(c);
      if ((!bound.first.defined() && !bound.end.defined()) || !Elsewhere(c).is_zero(term)) continue;
      meet(bound);
    }
    return found_;
  }

 private:
  static std::vector<Expr> conditions(const Expr& term) {
    std::vector<Expr> all;
    visit(term, [&](const Expr& e) {
      const Select* s = e.as<Select>();
      if (!s || all.size() >= kMostConditions) return;
      std::vector<Expr> parts;
      add_conjuncts(s->condition, parts);
      for (const Expr& p : parts) {
        const auto same = [&](const Expr& known) { return equal(known, p); };
        if (std::none_of(all.begin(), all.end(), same)) all.push_back(p);
      }
    });
    return all;
  }

  /// Where condition `c` holds: key < end or key >= first, if it says so.
  NeededTerms bound_of(const Expr& c) const {
    const Binary* b = c.as<Binary>();
    if (!b || (b->op != BinaryOp::Le && b->op != BinaryOp::Lt) || b->a.dtype() != i64) return {};
    const Var& key = op_.reduce_axes()[0].var();
    // slack >= 0
    const Expr slack = simplify(b->b - b->a - Expr(b->op == BinaryOp::Lt ? 1 : 0));
    const std::optional<Affine> f = as_affine(slack);
    if (!f) return {};
    const int64_t sign = f->coefficient(key);
    if (sign != 1 && sign != -1) return {};
    // -key + rest >= 0, or key + rest >= 0
    for (const Affine::Term& t : f->terms) {
      if (t.var.same_as(key)) continue;
      const auto is_it = [&](const Axis& a) { return a.var().same_as(t.var); };
      if (t.coefficient * -sign < 0 || std::none_of(op_.axes().begin(), op_.axes().end(), is_it))
        return {};
    }
    if (sign < 0) return {{}, simplify(slack + key.expr() + Expr(1))};
    return {simplify(key.expr() - slack), {}};
  }

  void meet(const NeededTerms& b) {
    const auto join = [](Expr& to, const Expr& with, const auto& by) {
      if (with.defined()) to = to.defined() ? by(to, with) : with;
    };
    join(found_.first, b.first, [](const Expr& x, const Expr& y) { return max(x, y); });
    join(found_.end, b.end, [](const Expr& x, const Expr& y) { return min(x, y); });
  }

  const Operation& op_;
  NeededTerms found_;
};

}  // namespace

NeededTerms needed_terms(const ComputeDag& dag, int s) {
  const Operation& op = dag.stage(s);
  const Reduce* r = reduction_of(op, ReduceKind::Sum, 1);
  if (!r) return {};
  return Finder(op).run(LookThrough(dag).expanded(r->sources[0]));
}

}  // namespace heddle::dag
