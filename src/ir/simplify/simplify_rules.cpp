#include "ir/simplify/simplify_rules.h"

#include <algorithm>
#include <array>

#include "ir/linear.h"

namespace heddle {
namespace {

struct Wildcards {
  Var x{"x"}, y{"y"}, z{"z"}, w{"w"}, c0{"c0"}, c1{"c1"};
  Var p{"p", boolean}, q{"q", boolean};
};

const Wildcards& wildcards() {
  static const Wildcards w;
  return w;
}

std::vector<SimplifyRule> make_rules() {
  const Wildcards& wild = wildcards();
  const Expr x = wild.x, y = wild.y, z = wild.z, w = wild.w, c0 = wild.c0, c1 = wild.c1;
  const Expr p = wild.p, q = wild.q, yes = true, no = false, none;
  const auto sel = [](const Expr& c, const Expr& t, const Expr& f) { return make_select(c, t, f); };
  return {
      // The lattice of min and max.
      {"min-absorbs-max", min(x, max(x, y)), x, none},
      {"max-absorbs-min", max(x, min(x, y)), x, none},
      {"min-of-max-common", min(max(x, y), max(x, z)), max(x, min(y, z)), none},
      {"max-of-min-common", max(min(x, y), min(x, z)), min(x, max(y, z)), none},
      {"min-of-selects", min(sel(p, x, y), sel(p, z, w)), sel(p, min(x, z), min(y, w)), none},
      {"max-of-selects", max(sel(p, x, y), sel(p, z, w)), sel(p, max(x, z), max(y, w)), none},
      // Selects that are minima and maxima. Comparisons with constants come as x < c or c <= x.
      {"select-lt-min", sel(x < y, x, y), min(x, y), none},
      {"select-lt-max", sel(x < y, y, x), max(x, y), none},
      {"select-le-min", sel(x <= y, x, y), min(x, y), none},
      {"select-le-max", sel(x <= y, y, x), max(x, y), none},
      {"select-lt-constant-min", sel(x < c0, x, c1), min(x, c1), c0 == c1 + 1},
      {"select-lt-constant-max", sel(x < c0, c1, x), max(x, c1), c0 == c1 + 1},
      {"select-le-constant-max", sel(c0 <= x, x, c1), max(x, c1), c0 == c1 + 1},
      {"select-le-constant-min", sel(c0 <= x, c1, x), min(x, c1), c0 == c1 + 1},
      // Nested selects.
      {"select-and", sel(p, sel(q, x, y), y), sel(p && q, x, y), none, true, true},
      {"select-or", sel(p, x, sel(q, x, y)), sel(p || q, x, y), none, true, true},
      // Bools.
      {"select-true-false", sel(p, yes, no), p, none},
      {"select-false-true", sel(p, no, yes), !p, none},
      {"select-else-false", sel(p, q, no), p && q, none, false, true},
      {"select-then-true", sel(p, yes, q), p || q, none, false, true},
      {"select-then-false", sel(p, no, q), !p && q, none, false, true},
      {"select-else-true", sel(p, q, yes), !p || q, none, false, true},
      {"bool-equal-true", p == yes, p, none},
      {"bool-equal-false", p == no, !p, none},
      {"bool-differs-true", p != yes, !p, none},
      {"bool-differs-false", p != no, p, none},
      {"and-contradiction", p && !p, no, none},
      {"or-excluded-middle", p || !p, yes, none},
      {"and-absorbs-or", p && (p || q), p, none},
      {"or-absorbs-and", p || (p && q), p, none},
      // Division by expressions that are not constant.
      {"floordiv-product", floordiv(x * y, y), x, 0 < y},
      {"floormod-product", floormod(x * y, y), 0, 0 < y},
      {"floormod-twice", floormod(floormod(x, y), y), floormod(x, y), 0 < y},
  };
}

bool commutes(BinaryOp op) {
  switch (op) {
    case BinaryOp::Add:
    case BinaryOp::Mul:
    case BinaryOp::Min:
    case BinaryOp::Max:
    case BinaryOp::Eq:
    case BinaryOp::Ne:
    case BinaryOp::And:
    case BinaryOp::Or: return true;
    default: return false;
  }
}

class Match {
 public:
  explicit Match(const SimplifyRule& rule) : rule_(rule) {}

  /// Tries both orders of the operands of each commutative operator.
  bool matches(const Expr& e) {
    int operators = 0;
    for (unsigned swaps = 0; swaps < 1u << operators || swaps == 0; ++swaps) {
      swaps_ = swaps;
      operators_ = 0;
      count_ = 0;
      if (matches(rule_.pattern, e)) return true;
      operators = std::max(operators, operators_);
    }
    return false;
  }

  /// `e` with the wildcards replaced by what they matched.
  Expr instantiate(const Expr& e) const {
    std::vector<VarBinding> bindings;
    for (size_t i = 0; i < count_; ++i) {
      bindings.push_back({Var::from(Expr(bound_[i].wildcard)), *bound_[i].value});
    }
    return substitute(e, bindings);
  }

  bool may_fault() const {
    for (size_t i = 0; i < count_; ++i) {
      if (bound_[i].wildcard->dtype == boolean && heddle::may_fault(*bound_[i].value)) return true;
    }
    return false;
  }

 private:
  bool matches(const Expr& pattern, const Expr& e) {
    if (const VarNode* v = pattern.as<VarNode>()) return bind(v, e);
    if (pattern.kind() != e.kind()) return false;
    switch (pattern.kind()) {
      case ExprKind::IntImm: return equal(pattern, e);
      case ExprKind::Unary: {
        const Unary *x = pattern.as<Unary>(), *y = e.as<Unary>();
        return x->op == y->op && matches(x->a, y->a);
      }
      case ExprKind::Binary: {
        const Binary *x = pattern.as<Binary>(), *y = e.as<Binary>();
        if (x->op != y->op || x->a.dtype() != y->a.dtype()) return false;
        const bool swap = commutes(x->op) && (swaps_ >> operators_++ & 1) != 0;
        return matches(x->a, swap ? y->b : y->a) && matches(x->b, swap ? y->a : y->b);
      }
      case ExprKind::Select: {
        const Select *x = pattern.as<Select>(), *y = e.as<Select>();
        return matches(x->condition, y->condition) && matches(x->on_true, y->on_true) &&
               matches(x->on_false, y->on_false);
      }
      default: return false;
    }
  }

  bool bind(const VarNode* v, const Expr& e) {
    for (size_t i = 0; i < count_; ++i) {
      if (bound_[i].wildcard == v) return equal(*bound_[i].value, e);
    }
    const bool bool_wanted = v->dtype == boolean;
    const bool fits = rule_.any_type && !bool_wanted ? !e.dtype().is_bool() : e.dtype() == v->dtype;
    if (!fits || count_ == bound_.size()) return false;
    if (is_constant_wildcard(v) && !as_int(e)) return false;
    bound_[count_++] = {v, &e};
    return true;
  }

  struct Bound {
    const VarNode* wildcard;
    const Expr* value;
  };
  const SimplifyRule& rule_;
  std::array<Bound, 6> bound_{};
  size_t count_ = 0;
  unsigned swaps_ = 0;  ///< bit i: the operands of the i-th commutative operator change places
  int operators_ = 0;
};

/// Rules are grouped by the operator at their top. Selects and all others share the last slot.
constexpr size_t kBinaryOps = static_cast<size_t>(BinaryOp::Shr) + 1;
size_t slot(const Expr& e) {
  const Binary* b = e.as<Binary>();
  return b ? static_cast<size_t>(b->op) : kBinaryOps;
}

}  // namespace

const std::vector<SimplifyRule>& simplify_rules() {
  static const std::vector<SimplifyRule> rules = make_rules();
  return rules;
}

bool is_constant_wildcard(const VarNode* v) {
  return v == wildcards().c0.get() || v == wildcards().c1.get();
}

std::optional<Expr> apply_rules(const Expr& e, const Ranges& ranges) {
  static const auto by_slot = [] {
    std::array<std::vector<const SimplifyRule*>, kBinaryOps + 1> table;
    for (const SimplifyRule& r : simplify_rules()) table[slot(r.pattern)].push_back(&r);
    return table;
  }();
  if (e.kind() != ExprKind::Binary && e.kind() != ExprKind::Select) return std::nullopt;
  for (const SimplifyRule* rule : by_slot[slot(e)]) {
    Match match(*rule);
    if (!match.matches(e)) continue;
    if (rule->no_faults && match.may_fault()) continue;
    if (rule->condition.defined() &&
        range_of(match.instantiate(rule->condition), ranges).min != 1) {
      continue;
    }
    return match.instantiate(rule->result);
  }
  return std::nullopt;
}

}  // namespace heddle
