// Negations, chains of "and" and "or", and selects.
#include <algorithm>

#include "ir/simplify/simplifier.h"
#include "ir/simplify/simplify_rules.h"

namespace heddle {
namespace {

void flatten(const Expr& e, BinaryOp op, std::vector<Expr>& out, SeenNodes& seen) {
  if (!seen.first(e)) return;  // a && a is a
  if (const Binary* b = e.as<Binary>(); b && b->op == op) {
    flatten(b->a, op, out, seen);
    flatten(b->b, op, out, seen);
  } else {
    out.push_back(e);
  }
}

void flatten(const Expr& e, BinaryOp op, std::vector<Expr>& out) {
  SeenNodes seen;
  flatten(e, op, out, seen);
}

bool all_same(const std::vector<Expr>& a, const std::vector<Expr>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Expr& x, const Expr& y) { return equal(x, y); });
}

}  // namespace

Expr Simplifier::negation(const Expr& c) {
  if (const Binary* b = c.as<Binary>()) {
    const bool integral = b->a.dtype().is_integral();
    switch (b->op) {
      case BinaryOp::And:
      case BinaryOp::Or:
        // Negating both operands would copy shared parts, and copy them again for each further
        // negation.
        if (++visits_ > kMostBeforeSharing) break;
        return make_binary(b->op == BinaryOp::And ? BinaryOp::Or : BinaryOp::And, negation(b->a),
                           negation(b->b));
      case BinaryOp::Lt:
        if (b->a.dtype() == i64) return compare_i64(BinaryOp::Le, b->b, b->a);
        if (integral) return make_binary(BinaryOp::Le, b->b, b->a);
        break;
      case BinaryOp::Le:
        if (b->a.dtype() == i64) return compare_i64(BinaryOp::Lt, b->b, b->a);
        if (integral) return make_binary(BinaryOp::Lt, b->b, b->a);
        break;
      // This holds for floats too: "equal" and "not equal" are opposites even for NaN.
      case BinaryOp::Eq: return make_binary(BinaryOp::Ne, b->a, b->b);
      case BinaryOp::Ne: return make_binary(BinaryOp::Eq, b->a, b->b);
      default: break;
    }
  }
  return make_unary(UnaryOp::Not, c);
}

/// Simplifies each part under the condition of the parts before it. Parts that may trap are left
/// alone: all parts are always evaluated, and an index or divisor must not change where another
/// part is false.
void Simplifier::forward(std::vector<Expr>& parts, BinaryOp op) {
  const bool is_and = op == BinaryOp::And;
  std::vector<Expr> out;
  for (Expr& part : parts) {
    if (may_fault(part)) part = expr(part);
  }
  Assumption before(*this);
  for (const Expr& part : parts) {
    std::vector<Expr> pieces;
    flatten(may_fault(part) ? part : expr(part), op, pieces);
    for (Expr& p : pieces) {
      if (const int64_t* c = as_int(p)) {
        if ((*c != 0) == is_and) continue;
        parts = {p};
        return;
      }
      if (std::any_of(out.begin(), out.end(), [&](const Expr& o) { return equal(o, p); })) continue;
      if (visits_ < kMostVisits) before.add(p, is_and);
      out.push_back(std::move(p));
    }
  }
  parts = std::move(out);
}

Expr Simplifier::conjunction(const Expr& e, BinaryOp op) {
  const bool is_and = op == BinaryOp::And;
  std::vector<Expr> parts;
  flatten(e, op, parts);
  forward(parts, op);
  // Simplifies each part under the condition of all others. This is done only near the top of a
  // condition, because the work multiplies with the depth.
  if (parts.size() > 1 && parts.size() <= 8 && condition_depth_ < 2 && visits_ < kMostVisits) {
    ++condition_depth_;
    for (int round = 0; round < 3; ++round) {
      const std::vector<Expr> before = parts;
      for (size_t i = parts.size(); i-- > 0 && parts.size() > 1;) {
        if (may_fault(parts[i])) continue;
        Assumption others(*this);
        for (size_t j = 0; j < parts.size(); ++j) {
          if (j != i) others.add(parts[j], is_and);
        }
        Expr p = expr(parts[i]);
        const int64_t* c = as_int(p);
        if (!c) {
          parts[i] = std::move(p);
        } else if ((*c != 0) == is_and) {
          parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(i));
        } else {
          parts = {p};
        }
      }
      forward(parts, op);
      if (parts.size() < 2 || all_same(parts, before)) break;
    }
    --condition_depth_;
  }
  if (parts.empty()) return is_and;
  Expr result = parts[0];
  for (size_t i = 1; i < parts.size(); ++i) {
    result = make_binary(op, std::move(result), parts[i]);
  }
  if (const std::optional<Expr> better = apply_rules(result, ranges_)) return expr(*better);
  return result;
}

Expr Simplifier::select(const Expr& e, const Select& s) {
  Expr c = expr(s.condition);
  if (const int64_t* known = as_int(c)) return expr(*known ? s.on_true : s.on_false);
  if (const Broadcast* b = c.as<Broadcast>()) c = Expr(b->value);
  const Expr *when = &s.on_true, *otherwise = &s.on_false;
  if (const Unary* u = c.as<Unary>(); u && u->op == UnaryOp::Not) {
    c = Expr(u->a);
    std::swap(when, otherwise);
  }
  Expr arms[2];
  for (const bool value : {true, false}) {
    Assumption branch(*this);
    if (c.dtype() == boolean && visits_ < kMostVisits) branch.add(c, value);
    arms[value] = expr(value ? *when : *otherwise);
  }
  Expr result = make_select(c, arms[1], arms[0]);
  if (result.dtype().is_scalar()) {
    if (const std::optional<Expr> better = apply_rules(result, ranges_)) return expr(*better);
  }
  return equal(result, e) ? e : result;
}

}  // namespace heddle
