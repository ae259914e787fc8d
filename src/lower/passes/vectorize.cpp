#include "lower/passes.h"

#include <algorithm>
#include <bit>
#include <set>

#include "heddle/ir/simplify.h"
#include "ir/linear.h"
#include "ir/sizes.h"

namespace heddle::lowering {
namespace {

constexpr int64_t kMaxLanes = 256;
constexpr int64_t kMostInTail = 127;  // the longest loop of varying length that becomes vectors

// Lanes that are left out may hold zeros, which no integer may be divided by.
bool may_divide_by_zero(const Expr& e) {
  return any_below(e, [](const Expr& x) {
    const Binary* b = x.as<Binary>();
    if (!b || b->dtype.is_float() || is_const(b->b)) return false;
    return b->op == BinaryOp::Div || b->op == BinaryOp::Mod || b->op == BinaryOp::FloorDiv ||
           b->op == BinaryOp::FloorMod;
  });
}

using Buffers = std::set<const BufferNode*>;

// The lanes of a tail: the loop has `length` iterations, and lanes beyond them neither load nor
// store, except to `rows`: buffers of one row, which ends where the loop does.
struct TailLanes {
  Expr length;
  Buffers rows;
};

// Widens the body of one vectorized loop. `failed` is set when it cannot be done.
class Widener {
 public:
  Widener(const Var& v, int lanes, bool masks, const TailLanes* tail)
      : lane_(v), lanes_(lanes), masks_(masks), tail_(tail) {
    const Expr ramp = make_ramp(Expr(0), Expr(1), lanes);
    map_.push_back({v, ramp});
    if (tail) mask_ = ramp < make_broadcast(tail->length, lanes);
  }
  bool failed = false;

  Stmt run(const Stmt& s) {
    if (!s || failed) return s;
    switch (s.kind()) {
      case StmtKind::Store: return stored(s);
      case StmtKind::Let: {
        const Let* l = s.as<Let>();
        Expr value = widen(l->value);
        if (value.dtype().lanes == 1) return make_let(l->var, value, run(l->body));
        if (mask_.defined()) {
          failed |= may_divide_by_zero(value);
          value = make_select(mask_, value, make_const(value.dtype(), 0));
        }
        Var wide(l->var->name, value.dtype());
        map_.push_back({l->var, wide.expr()});
        Stmt body = run(l->body);
        map_.pop_back();
        return make_let(wide, value, body);
      }
      case StmtKind::If: {
        const If* i = s.as<If>();
        const std::optional<Expr> condition = same_in_all_lanes(i->condition);
        if (!condition && ends_axis(*i)) return left_out(*i);
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
  // The store `s` of all lanes.
  Stmt stored(const Stmt& s) {
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
    const Stmt store = make_store(st->buffer, std::move(idx), value, st->hint);
    if (!mask_.defined()) return store;
    failed |= may_divide_by_zero(value) || std::any_of(idx.begin(), idx.end(), has_load);
    const bool last = tail_ && tail_->rows.count(st->buffer.get()) > 0 && !reads(value, st->buffer);
    return last ? store_to_row(*store.as<Store>()) : make_if(mask_, store);
  }

  // Whether the condition says that a lane is an element of an axis of varying length.
  bool ends_axis(const If& s) const {
    return masks_ && !s.else_body && !mask_.defined() && !has_load(s.condition) &&
           !sizes_in(s.condition).empty();
  }

  // Lanes where the condition is false neither load nor store.
  Stmt left_out(const If& s) {
    mask_ = simplify(widen(s.condition));
    const Stmt body = run(s.then_body);
    mask_ = Expr();
    return body;
  }

  // Where the row has room for all lanes, they are all stored: a masked store delays those who read
  // from it soon.
  Stmt store_to_row(const Store& s) const {
    const Ramp* at = s.indices[0].as<Ramp>();
    if (s.indices.size() != 1 || !at || !is_const(at->stride, 1)) return make_if(mask_, Stmt(&s));
    const Var v("tail", s.value.dtype());
    const auto store = [&] { return make_store(s.buffer, s.indices, v, s.hint); };
    const Expr room = at->base + Expr(int64_t{lanes_}) <= s.buffer->shape.back();
    return make_let(v, make_select(mask_, s.value, make_const(s.value.dtype(), 0)),
                    make_if(simplify(room), store(), make_if(mask_, store())));
  }

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
  const bool masks_;  ///< whether stores may leave out lanes
  const TailLanes* tail_;
  Expr mask_;  ///< null: all lanes
  std::vector<VarBinding> map_;
};

// `body` with `v` running over `lanes` values, or null.
Stmt widened(const Var& v, int64_t lanes, const Stmt& body, bool masks,
             const TailLanes* tail = nullptr) {
  Widener w(v, static_cast<int>(lanes), masks, tail);
  Stmt wide = w.run(body);
  return w.failed ? Stmt() : wide;
}

// The bytes of the widest element that `s` stores.
int64_t stored_bytes(const Stmt& s) {
  int64_t bytes = 1;
  visit(
      s,
      [&](const Stmt& x) {
        if (const Store* store = x.as<Store>())
          bytes = std::max<int64_t>(bytes, store->buffer->dtype.bytes());
      },
      [](const Expr&) {});
  return bytes;
}

// if (n > 8) { 16 lanes, those below n } else if (n > 0) { 8 lanes, those below n }, where a
// register holds 8 lanes. Returns null where the loop cannot be widened.
Stmt masked_tail(const For& f, int64_t most, int64_t register_bytes, const Buffers& rows) {
  // The loop is the last part of an axis where its length depends on sizes alone.
  const bool last = !any_below(f.extent, [](const Expr& e) {
    const VarNode* v = e.as<VarNode>();
    return v && !v->size;
  });
  const TailLanes tail{f.extent, last ? rows : Buffers()};
  const int64_t a_register = std::max<int64_t>(register_bytes / stored_bytes(f.body), 2);
  int64_t lanes = a_register, fewer = 0;
  Stmt out;
  for (;; lanes *= 2) {
    const Stmt wide = widened(f.var, lanes, f.body, true, &tail);
    if (!wide) return {};
    out = make_if(simplify(f.extent > Expr(fewer)), wide, out);
    if (lanes >= most) return out;
    fewer = lanes;
  }
}

// if (n & 8) { 8 lanes }  if (n & 4) { 4 lanes } ..: of 13 iterations the first 8, then 4, then 1.
// Returns null where the loop cannot be widened.
Stmt tail_in_powers_of_two(const For& f, int64_t most) {
  std::vector<Stmt> parts;
  for (auto lanes = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(most))); lanes > 0;
       lanes /= 2) {
    const Expr before = simplify(floordiv(f.extent, Expr(2 * lanes)) * Expr(2 * lanes));
    const Var v(f.var->name);
    const Expr at = lanes > 1 ? v + before : before;
    Stmt part = substitute(f.body, {{f.var, at}});
    if (lanes > 1) part = widened(v, lanes, part, false);
    if (!part) return {};
    parts.push_back(make_if(simplify(f.extent - before >= Expr(lanes)), part));
  }
  return make_block(std::move(parts));
}

class Vectorizer {
 public:
  explicit Vectorizer(std::optional<int64_t> masked_bytes) : masked_bytes_(masked_bytes) {}

  Stmt run(const Stmt& s) {
    if (!s) return s;
    if (const Allocate* a = s.as<Allocate>()) return inside_allocate(*a);
    const For* f = s.as<For>();
    if (f && f->loop == LoopKind::Parallel)
      return make_for(f->var, f->extent, f->loop, Vectorizer(masked_bytes_).run(f->body));
    if (f && is_tensorized(f->loop)) return s;
    if (!f || f->loop != LoopKind::Vectorized) {
      return map_children(
          s, [&](const Stmt& c) { return run(c); }, [](const Expr& e) { return e; });
    }
    const int64_t* n = as_int(f->extent);
    if (n && *n > 1 && *n <= kMaxLanes) {
      if (Stmt wide = widened(f->var, *n, f->body, masked_bytes_ && *masked_bytes_ > 0))
        return wide;
    }
    if (Stmt wide = n ? Stmt() : tail(*f)) return wide;
    return make_for(f->var, f->extent, LoopKind::Serial, run(f->body));
  }

 private:
  Stmt inside_allocate(const Allocate& a) {
    const std::vector<Expr>& shape = a.buffer->shape;
    const bool row = !shape.empty() && std::all_of(shape.begin(), shape.end() - 1,
                                                   [](const Expr& e) { return is_const(e, 1); });
    if (row) rows_.insert(a.buffer.get());
    Stmt body = run(a.body);
    rows_.erase(a.buffer.get());
    return make_allocate(a.buffer, body, a.copies);
  }

  // A vectorized loop whose length varies, the tail of an axis that depends on a size.
  Stmt tail(const For& f) const {
    const int64_t most = range_of(f.extent, {}).max;
    if (!masked_bytes_ || most < 1 || most > kMostInTail) return {};
    const Stmt masked = *masked_bytes_ > 0 ? masked_tail(f, most, *masked_bytes_, rows_) : Stmt();
    return masked ? masked : tail_in_powers_of_two(f, most);
  }

  std::optional<int64_t> masked_bytes_;
  Buffers rows_;  ///< buffers of one row that this thread has to itself
};

}  // namespace

Stmt vectorize(const Stmt& s, std::optional<int64_t> masked_bytes) {
  return Vectorizer(masked_bytes).run(s);
}

}  // namespace heddle::lowering
