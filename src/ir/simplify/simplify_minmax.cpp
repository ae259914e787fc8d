// Minima and maxima of linear forms.
#include <algorithm>

#include "ir/simplify/simplifier.h"
#include "ir/simplify/simplify_rules.h"

namespace heddle {
namespace {

bool is_minmax(const Expr& e) {
  const Binary* b = e.as<Binary>();
  return b && (b->op == BinaryOp::Min || b->op == BinaryOp::Max);
}

/// Adds `a` to the arguments of `op`. (min(p, q) + rest) is added as p + rest and q + rest.
void add_arguments(BinaryOp op, const Linear& a, std::vector<Linear>& out) {
  const LinearTerm* nested = nullptr;
  int count = 0;
  for (const LinearTerm& t : a.terms) {
    if (!is_minmax(t.expr)) continue;
    ++count;
    if (t.coefficient == 1 && t.expr.as<Binary>()->op == op) nested = &t;
  }
  // Expanding several of them would multiply the number of arguments.
  if (!nested || count > 1 || out.size() > 8) {
    out.push_back(a);
    return;
  }
  for (const Expr* arm : {&nested->expr.as<Binary>()->a, &nested->expr.as<Binary>()->b}) {
    Linear with_arm = a;
    with_arm.add(nested->expr, -1);
    with_arm.add(canonical_linear(*arm));
    with_arm.normalize();
    add_arguments(op, with_arm, out);
  }
}

/// Removes the terms that all arguments share, constants excluded, and returns them.
Linear take_common(std::vector<Linear>& args) {
  Linear common;
  for (const LinearTerm& t : args[0].terms) {
    const bool everywhere = std::all_of(args.begin() + 1, args.end(), [&](const Linear& a) {
      return a.coefficient(t.expr) == t.coefficient;
    });
    if (everywhere) common.add(t.expr, t.coefficient);
  }
  if (common.terms.empty()) return common;
  for (Linear& a : args) {
    a.add(common, -1);
    a.normalize();
  }
  return common;
}

Expr build(BinaryOp op, const std::vector<Linear>& args) {
  std::vector<Expr> exprs;
  exprs.reserve(args.size());
  for (const Linear& a : args) exprs.push_back(to_expr(a));
  std::sort(exprs.begin(), exprs.end(), [](const Expr& a, const Expr& b) {
    const bool ca = is_const(a), cb = is_const(b);  // constants come last
    return ca != cb ? cb : compare(a, b) < 0;
  });
  Expr result = exprs[0];
  for (size_t i = 1; i < exprs.size(); ++i) {
    result = make_binary(op, std::move(result), exprs[i]);
  }
  return result;
}

}  // namespace

Linear Simplifier::minmax(BinaryOp op, const Linear& a, const Linear& b) {
  std::vector<Linear> args;
  add_arguments(op, a, args);
  add_arguments(op, b, args);
  for (Linear& x : args) {
    finish(x);
    if (x.overflow) return x;
  }
  // Removes arguments that another argument always beats.
  for (size_t i = 0; i < args.size(); ++i) {
    for (size_t j = i + 1; j < args.size();) {
      Linear d = difference(args[i], args[j]);
      finish(d);
      Interval r = range(d);
      if (op == BinaryOp::Max) r = negate(r);
      if (r.max <= 0) {
        args.erase(args.begin() + static_cast<std::ptrdiff_t>(j));
      } else if (r.min >= 0) {
        args[i] = std::move(args[j]);
        args.erase(args.begin() + static_cast<std::ptrdiff_t>(j));
        j = i + 1;  // the argument is new, so it is compared with all others again
      } else {
        ++j;
      }
    }
  }
  if (args.size() == 1) return args[0];
  Linear out = take_common(args);
  const Expr whole = build(op, args);
  if (const std::optional<Expr> better = apply_rules(whole, ranges_)) {
    out.add(linear(*better));
  } else {
    out.add(canonical_linear(whole));
  }
  out.normalize();
  return out;
}

// min(x + 16, 100) - x --> min(16, 100 - x): rest that cancels in an arm moves into both; so does a
// constant when one arm is a constant anyway. -min(p, q) counts as max(-p, -q).
bool Simplifier::absorb_into_minimum(Linear& a) {
  for (size_t i = 0; i < a.terms.size(); ++i) {
    const LinearTerm t = a.terms[i];
    if (!is_minmax(t.expr) || (t.coefficient != 1 && t.coefficient != -1)) continue;
    const Binary* b = t.expr.as<Binary>();
    if (is_minmax(b->a) || is_minmax(b->b)) continue;
    std::vector<Linear> arms{canonical_linear(b->a), canonical_linear(b->b)};
    BinaryOp op = b->op;
    if (t.coefficient == -1) {
      op = op == BinaryOp::Min ? BinaryOp::Max : BinaryOp::Min;
      for (Linear& arm : arms) arm.scale(-1);
    }
    Linear rest = a;
    rest.add(t.expr, -t.coefficient);
    rest.normalize();
    Linear moved;
    for (const LinearTerm& r : rest.terms) {
      const int64_t p = arms[0].coefficient(r.expr), q = arms[1].coefficient(r.expr);
      if (r.coefficient == INT64_MIN) continue;
      if ((p == -r.coefficient && q == 0) || (q == -r.coefficient && p == 0)) {
        moved.add(r.expr, r.coefficient);
      }
    }
    const bool constant_arm = arms[0].is_constant() || arms[1].is_constant();
    if (constant_arm) moved.constant = rest.constant;
    if (moved.terms.empty() && moved.constant == 0) continue;
    for (Linear& arm : arms) {
      arm.add(moved);
      finish(arm);
    }
    rest.add(moved, -1);
    rest.add(canonical_linear(build(op, arms)), 1);
    rest.normalize();
    if (rest.overflow || arms[0].overflow || arms[1].overflow) continue;
    a = std::move(rest);
    return true;
  }
  return false;
}

}  // namespace heddle
