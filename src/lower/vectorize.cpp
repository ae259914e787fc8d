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
          // One element for all lanes: fine only when all lanes agree, and none sees another's.
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
        if (varies(s.as<If>()->condition)) failed = true;
        return map_children(
            s, [&](const Stmt& c) { return run(c); }, [](const Expr& e) { return e; });
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
      case StmtKind::Prefetch: {  // one line holds the lanes: the first stands for all
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
    bool found = false;
    visit(e, [&](const Expr& x) {
      if (const Load* load = x.as<Load>()) found |= load->buffer == buffer;
    });
    return found;
  }
  bool varies(const Expr& e) const {
    for (const VarBinding& b : map_) {
      if (uses_var(e, b.var)) return true;
    }
    return false;
  }

  Expr widen(const Expr& e) const {
    if (!varies(e)) return e;
    return substitute(e, map_);
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
