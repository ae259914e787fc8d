#include "lower/passes.h"

#include <optional>

#include "heddle/ir/simplify.h"

namespace heddle {
namespace {

constexpr int64_t kMaxLanes = 256;

// Widens the body of one vectorized loop. `failed` is set when it cannot be done.
class Widener {
 public:
  Widener(const Var& v, int lanes) : lane_(v), lanes_(lanes) {
    map_.push_back({v, make_ramp(Expr(0), Expr(1), lanes)});
  }
  bool failed = false;

  Stmt run(const Stmt& s) {
    if (!s || failed) return s;
    switch (s.kind()) {
      case StmtKind::Store: {
        const Store* st = s.as<Store>();
        std::vector<Expr> idx;
        bool vector_index = false;
        for (const Expr& i : st->indices) {
          idx.push_back(simplify(widen(i)));
          vector_index |= idx.back().dtype().lanes > 1;
        }
        Expr value = widen(st->value);
        if (!vector_index) {
          // A store of one element by all lanes is valid only where all lanes agree and none reads
          // the value of another.
          if (value.dtype().lanes > 1 || reads(st->value, st->buffer)) failed = true;
          return s;
        }
        if (value.dtype().lanes == 1) value = make_broadcast(value, lanes_);
        return make_store(st->buffer, std::move(idx), value, st->hint);
      }
      case StmtKind::Let: {
        const Let* l = s.as<Let>();
        Expr value = widen(l->value);
        if (value.dtype().lanes == 1) return make_let(l->var, value, run(l->body));
        Var wide(l->var->name, value.dtype());
        map_.push_back({l->var, wide.expr()});
        Stmt body = run(l->body);
        map_.pop_back();
        return make_let(wide, value, body);
      }
      case StmtKind::If: {
        const If* i = s.as<If>();
        const std::optional<Expr> condition = same_in_all_lanes(i->condition);
        if (!condition) failed = true;
        return make_if(condition.value_or(i->condition), run(i->then_body), run(i->else_body));
      }
      case StmtKind::For: {
        const For* f = s.as<For>();
        if (varies(f->extent) || f->loop == LoopKind::Parallel || f->loop == LoopKind::Vectorized)
          failed = true;
        return make_for(f->var, f->extent, f->loop, run(f->body));
      }
      case StmtKind::Block:
        return map_children(
            s, [&](const Stmt& c) { return run(c); }, [](const Expr& e) { return e; });
      case StmtKind::Allocate:  // each lane would need a copy
        failed = true;
        return s;
      case StmtKind::Prefetch: {  // the lanes are in one cache line, so the first lane suffices
        std::vector<VarBinding> first{{lane_, Expr(0)}};
        return substitute(s, first);
      }
      case StmtKind::Sync:
      case StmtKind::TileOp: failed = true; return s;
    }
    return s;
  }

 private:
  static bool reads(const Expr& e, const Buffer& buffer) {
    return any_below(e, [&](const Expr& x) {
      const Load* load = x.as<Load>();
      return load && load->buffer == buffer;
    });
  }
  bool varies(const Expr& e) const {
    for (const VarBinding& b : map_) {
      if (uses_var(e, b.var)) return true;
    }
    return false;
  }

  Expr widen(const Expr& e) const {
    if (!varies(e)) return e;
    RewriteMemo memo;
    return substitute(decided_together(e, memo), map_);
  }

  // A condition that has the same value in all lanes, as a scalar. A comparison in it may vary if
  // all lanes are always on the same side, as in  8*i + lane < n  with 8 lanes and n a multiple of
  // 8.
  std::optional<Expr> same_in_all_lanes(const Expr& c) const {
    if (!varies(c)) return c;
    const Binary* b = c.as<Binary>();
    if (!b) return {};
    if (b->op == BinaryOp::And || b->op == BinaryOp::Or) {
      const std::optional<Expr> x = same_in_all_lanes(b->a), y = same_in_all_lanes(b->b);
      if (!x || !y) return {};
      return make_binary(b->op, *x, *y);
    }
    if ((b->op != BinaryOp::Lt && b->op != BinaryOp::Le) || b->a.dtype() != i64) return {};
    // The condition holds where `left` is more than `lane`.
    const Expr at_first = substitute(c, {{lane_, Expr(0)}});
    if (varies(at_first)) return {};
    const Binary* first = at_first.as<Binary>();
    if (!first) return {};
    const Expr more(int64_t{b->op == BinaryOp::Le});
    const Expr left = first->b - first->a + more;
    if (!is_const(simplify(left - lane_.expr() - (b->b - b->a + more)), 0)) return {};
    if (!is_const(simplify(floormod(left, Expr(int64_t{lanes_}))), 0)) return {};
    return at_first;
  }

  // Selects with such conditions choose for all lanes at once.
  Expr decided_together(const Expr& e, RewriteMemo& memo) const {
    return memo(e, [&](const Expr& x) {
      const Expr r = map_children(x, [&](const Expr& c) { return decided_together(c, memo); });
      const Select* s = r.as<Select>();
      if (!s || !varies(s->condition)) return r;
      const std::optional<Expr> condition = same_in_all_lanes(s->condition);
      return condition ? make_select(*condition, s->on_true, s->on_false) : r;
    });
  }

  Var lane_;
  int lanes_;
  std::vector<VarBinding> map_;
};

}  // namespace

Stmt vectorize(const Stmt& s) {
  if (!s) return s;
  auto recurse = [](const Stmt& c) { return vectorize(c); };
  auto keep = [](const Expr& e) { return e; };
  const For* f = s.as<For>();
  if (!f || f->loop != LoopKind::Vectorized) return map_children(s, recurse, keep);
  const int64_t* n = as_int(f->extent);
  if (n && *n > 1 && *n <= kMaxLanes) {
    Widener w(f->var, static_cast<int>(*n));
    Stmt body = w.run(f->body);
    if (!w.failed) return body;
  }
  return make_for(f->var, f->extent, LoopKind::Serial, vectorize(f->body));
}

}  // namespace heddle
