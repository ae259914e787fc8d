// A tiny evaluator of integer expressions for the tests: one lane, exact or undefined.
#pragma once

#include <optional>
#include <unordered_map>

#include "heddle/ir/expr.h"
#include "ir/fold.h"

namespace heddle::test {

using Values = std::unordered_map<const VarNode*, int64_t>;

/// The value of lane `lane` of `e`; nothing where it is undefined (a division by zero) or no i64.
inline std::optional<int64_t> evaluate(const Expr& e, const Values& values, int lane = 0) {
  const auto value = [&](const Expr& x) { return evaluate(x, values, lane); };
  switch (e.kind()) {
    case ExprKind::IntImm: return e.as<IntImm>()->value;
    case ExprKind::Var: return values.at(e.as<VarNode>());
    case ExprKind::Cast: {
      const auto v = value(e.as<Cast>()->value);
      return v ? std::optional(wrap_int(e.dtype().element(), *v)) : v;
    }
    case ExprKind::Unary: {
      const auto v = value(e.as<Unary>()->a);
      return v ? fold_int(e.as<Unary>()->op, e.dtype().element(), *v) : v;
    }
    case ExprKind::Broadcast: return value(e.as<Broadcast>()->value);
    case ExprKind::Ramp: {
      const auto base = value(e.as<Ramp>()->base), stride = value(e.as<Ramp>()->stride);
      if (!base || !stride) return std::nullopt;
      return *base + lane * *stride;
    }
    case ExprKind::Select: {
      const auto c = value(e.as<Select>()->condition);
      if (!c) return c;
      return value(*c ? e.as<Select>()->on_true : e.as<Select>()->on_false);
    }
    case ExprKind::Binary: {
      const Binary& b = *e.as<Binary>();
      const auto x = value(b.a), y = value(b.b);
      if (!x || !y) return std::nullopt;
      int64_t exact;
      if (b.a.dtype().element() == i64) {
        if (b.op == BinaryOp::Add && __builtin_add_overflow(*x, *y, &exact)) return std::nullopt;
        if (b.op == BinaryOp::Sub && __builtin_sub_overflow(*x, *y, &exact)) return std::nullopt;
        if (b.op == BinaryOp::Mul && __builtin_mul_overflow(*x, *y, &exact)) return std::nullopt;
      }
      return fold_int(b.op, b.a.dtype().element(), *x, *y);
    }
    default: return std::nullopt;
  }
}

}  // namespace heddle::test
