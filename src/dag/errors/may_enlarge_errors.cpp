#include <unordered_set>

#include "dag/errors/error_bound.h"

namespace heddle {
namespace {

bool enlarges(const Expr& e) {
  if (const auto* u = e.as<Unary>()) {
    switch (u->op) {
      case UnaryOp::Neg:
      case UnaryOp::Abs:
      case UnaryOp::Not:
      case UnaryOp::BitNot:
      case UnaryOp::RoundTf32: return false;
      default: return u->a.dtype().is_float();
    }
  }
  if (const auto* b = e.as<Binary>()) {
    if (!b->a.dtype().is_float()) return false;
    switch (b->op) {
      case BinaryOp::Add:
      case BinaryOp::Sub:
      case BinaryOp::Mul:
      case BinaryOp::Min:
      case BinaryOp::Max: return false;
      case BinaryOp::Div: return !is_const(b->b);
      default: return true;
    }
  }
  if (const auto* c = e.as<Cast>()) return c->value.dtype().is_float() && !c->dtype.is_float();
  if (const auto* r = e.as<Reduce>()) {
    return r->combiner->kind == ReduceKind::Custom || r->combiner->kind == ReduceKind::Prod;
  }
  return false;
}

bool enlarges_somewhere(const Expr& e, std::unordered_set<const ExprNode*>& seen) {
  if (!seen.insert(e.get()).second) return false;
  if (enlarges(e)) return true;
  bool any = false;
  for_each_child(e, [&](const Expr& c) { any = any || enlarges_somewhere(c, seen); });
  return any;
}

}  // namespace

bool may_enlarge_errors(const ComputeDag& dag) {
  std::unordered_set<const ExprNode*> seen;
  for (int i = 0; i < dag.size(); ++i) {
    for (const Expr& body : dag.stage(i).bodies()) {
      if (enlarges_somewhere(body, seen)) return true;
    }
  }
  return false;
}

}  // namespace heddle
