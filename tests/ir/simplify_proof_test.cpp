// A proof by z3 of every row of the rule table.
#include <gtest/gtest.h>
#include <z3++.h>

#include "heddle/ir/print.h"
#include "heddle/support/error.h"
#include "ir/simplify/simplify_rules.h"

namespace heddle {
namespace {

class Translation {
 public:
  explicit Translation(z3::context& context) : c_(context) {}

  z3::expr operator()(const Expr& e) {
    switch (e.kind()) {
      case ExprKind::IntImm: {
        const int64_t v = e.as<IntImm>()->value;
        return e.dtype().is_bool() ? c_.bool_val(v != 0) : c_.int_val(v);
      }
      case ExprKind::Var: {
        const VarNode* v = e.as<VarNode>();
        return v->dtype.is_bool() ? c_.bool_const(v->name.c_str()) : c_.int_const(v->name.c_str());
      }
      case ExprKind::Select: {
        const Select& s = *e.as<Select>();
        return z3::ite((*this)(s.condition), (*this)(s.on_true), (*this)(s.on_false));
      }
      case ExprKind::Unary:
        HEDDLE_ICHECK(e.as<Unary>()->op == UnaryOp::Not, "no translation");
        return !(*this)(e.as<Unary>()->a);
      case ExprKind::Binary: return binary(*e.as<Binary>());
      default: throw_internal_error("no translation of " + to_string(e));
    }
  }

 private:
  // z3 divides so that the remainder is not negative; ours rounds down.
  static z3::expr quotient(const z3::expr& x, const z3::expr& y) {
    return z3::ite(y > 0, x / y, (-x) / (-y));
  }

  z3::expr binary(const Binary& b) {
    const z3::expr x = (*this)(b.a), y = (*this)(b.b);
    switch (b.op) {
      case BinaryOp::Add: return x + y;
      case BinaryOp::Sub: return x - y;
      case BinaryOp::Mul: return x * y;
      case BinaryOp::FloorDiv: return quotient(x, y);
      case BinaryOp::FloorMod: return x - y * quotient(x, y);
      case BinaryOp::Min: return z3::ite(x <= y, x, y);
      case BinaryOp::Max: return z3::ite(x <= y, y, x);
      case BinaryOp::Eq: return x == y;
      case BinaryOp::Ne: return x != y;
      case BinaryOp::Lt: return x < y;
      case BinaryOp::Le: return x <= y;
      case BinaryOp::And: return x && y;
      case BinaryOp::Or: return x || y;
      default: throw_internal_error(std::string("no translation of ") + to_string(b.op));
    }
  }

  z3::context& c_;
};

TEST(SimplifyProof, EveryRuleHolds) {
  for (const SimplifyRule& rule : simplify_rules()) {
    z3::context context;
    z3::solver solver(context);
    z3::params limits(context);
    limits.set("timeout", 20000u);
    solver.set(limits);
    Translation translate(context);
    if (rule.condition) solver.add(translate(rule.condition));
    solver.add(translate(rule.pattern) != translate(rule.result));
    EXPECT_EQ(solver.check(), z3::unsat)
        << rule.name << ": " << rule.pattern << " --> " << rule.result;
  }
}

}  // namespace
}  // namespace heddle
