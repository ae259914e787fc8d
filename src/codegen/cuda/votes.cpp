#include "codegen/cuda/votes.h"

#include <algorithm>

#include "heddle/ir/simplify.h"

namespace heddle::cuda {
namespace {

constexpr int64_t kWarp = 32;

// Bounds over the lanes of a warp, in terms of what is the same in all of them.
class OverLanes {
 public:
  explicit OverLanes(const WarpFacts& facts) : facts_(facts) {}

  /// A condition that holds where `c` holds in some lane; null where that may be anywhere.
  Expr condition(const Expr& c) const {
    if (facts_.is_same(c)) return c;
    const Binary* b = c.as<Binary>();
    if (!b) return {};
    if (b->op == BinaryOp::And || b->op == BinaryOp::Or) {
      const Expr left = condition(b->a), right = condition(b->b);
      if (left.defined() && right.defined())
        return b->op == BinaryOp::And ? left && right : left || right;
      if (b->op == BinaryOp::Or) return {};
      return left.defined() ? left : right;
    }
    if (b->a.dtype() != i64 || (b->op != BinaryOp::Le && b->op != BinaryOp::Lt)) return {};
    const Expr least = bound(b->a, false), most = bound(b->b, true);
    if (!least.defined() || !most.defined()) return {};
    return b->op == BinaryOp::Le ? least <= most : least < most;
  }

 private:
  /// The largest (`most`) or smallest value of `e` in a lane of the warp; null where it is not known.
  Expr bound(const Expr& e, bool most) const {
    if (facts_.is_same(e)) return e;
    if (const VarNode* v = e.as<VarNode>(); v && facts_.lanes.contains(v)) {
      const Expr first = floordiv(e, kWarp) * kWarp;
      return most ? first + (kWarp - 1) : first;
    }
    const Binary* b = e.as<Binary>();
    if (!b) return {};
    const bool flips = b->op == BinaryOp::Sub;
    if (b->op == BinaryOp::Mul || b->op == BinaryOp::FloorDiv) {
      const int64_t* by = as_int(b->b);
      if (!by || (b->op == BinaryOp::FloorDiv && *by <= 0)) return {};
      const Expr x = bound(b->a, *by < 0 ? !most : most);
      if (!x.defined()) return {};
      return b->op == BinaryOp::Mul ? x * b->b : floordiv(x, b->b);
    }
    if (b->op != BinaryOp::Add && b->op != BinaryOp::Sub && b->op != BinaryOp::Min &&
        b->op != BinaryOp::Max)
      return {};
    const Expr left = bound(b->a, most), right = bound(b->b, flips ? !most : most);
    if (!left.defined() || !right.defined()) return {};
    return make_binary(b->op, left, right);
  }

  const WarpFacts& facts_;
};

}  // namespace

bool WarpFacts::is_same(const Expr& e) const {
  return !any_below(e, [&](const Expr& x) {
    if (const Load* load = x.as<Load>())
      return load->buffer->scope == Scope::Local || written.contains(load->buffer.get());
    const VarNode* v = x.as<VarNode>();
    return x.kind() == ExprKind::Shuffle || (v && !same.contains(v));
  });
}

namespace {

/// The condition of all that `loop` does; null where there is none, or for few iterations.
const If* condition_of(const For& loop) {
  const If* i = loop.body.as<If>();
  const int64_t* extent = as_int(loop.extent);
  return loop.loop != LoopKind::Serial || !i || i->else_body || (extent && *extent < kWarp)
             ? nullptr
             : i;
}

bool names_iterations(const Expr& condition, const For& loop) {
  return any_below(condition, [&](const Expr& e) {
    return e.kind() == ExprKind::Load && uses_var(e, loop.var);
  });
}

}  // namespace

bool tests_ahead(const For& loop, const WarpFacts& facts) {
  const If* i = condition_of(loop);
  // Of as many iterations as data says most are few.
  const bool of_data =
      any_below(loop.extent, [](const Expr& e) { return e.kind() == ExprKind::Load; });
  return i && !of_data && names_iterations(i->condition, loop) &&
         !any_below(i->condition, [&](const Expr& e) {
           const Load* load = e.as<Load>();
           return e.kind() == ExprKind::Shuffle ||
                  (load &&
                   (load->buffer->scope == Scope::Local || load->buffer->scope == Scope::Shared ||
                    facts.written.contains(load->buffer.get())));
         });
}

Expr vote_of(const For& loop, const WarpFacts& facts) {
  const If* i = condition_of(loop);
  if (!i || !facts.is_same(loop.extent)) return {};
  WarpFacts inside = facts;
  inside.same.insert(loop.var.get());
  const Expr vote = OverLanes(inside).condition(i->condition);
  if (!vote.defined()) return {};
  return names_iterations(vote, loop) ? vote : Expr();
}

}  // namespace heddle::cuda
