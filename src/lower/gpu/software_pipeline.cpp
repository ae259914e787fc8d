// Multi-stage software pipelining, as CUTLASS's sm80 main loop does it: with N copies of the tiles
// in shared memory, N - 1 iterations' loads are in flight while one iteration computes, and one
// barrier an iteration orders both the arrival of its tile and the reuse of the one before.
#include <algorithm>
#include <functional>

#include "heddle/ir/simplify.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

struct Tiles {
  std::vector<Buffer> tiles;
  int copies = 1;
  bool has(const Buffer& b) const {
    return std::find(tiles.begin(), tiles.end(), b) != tiles.end();
  }
};

bool writes(const Stmt& s, const Tiles& t) {
  bool found = false;
  visit(
      s,
      [&](const Stmt& x) {
        if (const Store* st = x.as<Store>()) found |= t.has(st->buffer);
        const TileOp* op = x.as<TileOp>();
        if (op && op->op != TileOpKind::Mma) found |= t.has(op->operands[0].buffer);
      },
      [](const Expr&) {});
  return found;
}

int64_t elements(const Buffer& b) { return b.num_elements(); }

// A copy that cp.async can do: 4, 8 or 16 bytes as they lie, from global memory.
bool can_be_async(const Store& st, const Ranges& ranges) {
  const Expr* value = &st.value;
  if (const Select* s = value->as<Select>()) {
    if (s->condition.dtype().lanes > 1 || !is_const(s->on_false, 0)) return false;
    value = &s->on_true;
  }
  const Load* load = value->as<Load>();
  if (!load || load->buffer->scope == Scope::Local || load->buffer->scope == Scope::Shared)
    return false;
  const int lanes = st.value.dtype().lanes;
  const int64_t bytes = int64_t{lanes} * load->buffer->dtype.bytes();
  if (bytes != 4 && bytes != 8 && bytes != 16) return false;
  if (lanes == 1) return true;
  auto aligned = [&](const std::vector<Expr>& indices) {
    const Ramp* r = indices[0].as<Ramp>();
    return r && is_const(r->stride, 1) &&
           is_const(simplify(floormod(r->base, Expr(int64_t{lanes})), ranges), 0);
  };
  return aligned(st.indices) && aligned(load->indices);
}

// Accesses to the tiles go to copy `slot`; stores of the producer become asynchronous where they
// can.
class Rotated {
 public:
  Rotated(const Tiles& from, const std::vector<Buffer>& to, Expr slot, bool producer)
      : from_(from), to_(to), slot_(std::move(slot)), producer_(producer) {}

  Stmt apply(const Stmt& s, Ranges ranges) const {
    if (!s) return s;
    if (const For* f = s.as<For>()) {
      const Interval n = range_of(f->extent, ranges);
      ranges.set(f->var, {0, std::max<int64_t>(0, n.max - 1)});
    }
    if (const Store* st = s.as<Store>(); st && from_.has(st->buffer)) {
      const bool async = producer_ && can_be_async(*st, ranges);
      return make_store(copy(st->buffer), {shift(st->buffer, apply(st->indices[0]))},
                        apply(st->value), async ? StoreHint::Async : st->hint);
    }
    if (const TileOp* op = s.as<TileOp>()) return tile_op(*op);
    return map_children(
        s, [&](const Stmt& c) { return apply(c, ranges); },
        [&](const Expr& e) { return apply(e); });
  }

 private:
  Expr apply(const Expr& e) const {
    const Load* load = e.as<Load>();
    if (load && from_.has(load->buffer))
      return make_load(copy(load->buffer), {shift(load->buffer, apply(load->indices[0]))});
    return map_children(e, [&](const Expr& c) { return apply(c); });
  }
  Stmt tile_op(const TileOp& op) const {
    std::vector<TileOperand> operands;
    for (const TileOperand& o : op.operands) {
      const bool tile = from_.has(o.buffer);
      operands.push_back(
          {tile ? copy(o.buffer) : o.buffer, tile ? shift(o.buffer, o.index) : o.index});
    }
    return Stmt(new TileOp(op.op, std::move(operands), op.m, op.n, op.k, op.count, op.transposed));
  }
  const Buffer& copy(const Buffer& b) const {
    return to_[static_cast<size_t>(std::find(from_.tiles.begin(), from_.tiles.end(), b) -
                                   from_.tiles.begin())];
  }
  Expr shift(const Buffer& b, const Expr& index) const {
    Expr by = slot_ * Expr(elements(b));
    if (const Ramp* r = index.as<Ramp>())
      return make_ramp(r->base + by, r->stride, index.dtype().lanes);
    return index + by;
  }

  const Tiles& from_;
  const std::vector<Buffer>& to_;
  Expr slot_;
  bool producer_;
};

// Whether all buffers of several copies that the body allocates are in `scope`; registers too can
// be loaded ahead.
bool all_in(Stmt body, Scope scope) {
  while (const Allocate* a = body.as<Allocate>()) {
    if (a->copies > 1 && a->buffer->scope != scope) return false;
    body = a->body;
  }
  return true;
}

Stmt pipelined(const For& loop, bool repeated, std::vector<Buffer>* made) {
  Tiles t;
  std::vector<Buffer> others;
  Stmt body = loop.body;
  const bool shared = all_in(loop.body, Scope::Shared), local = all_in(loop.body, Scope::Local);
  if (!shared && !local) return {};
  while (const Allocate* a = body.as<Allocate>()) {
    if (a->copies > 1) {
      t.tiles.push_back(a->buffer);
      t.copies = std::max(t.copies, a->copies);
    } else {
      others.push_back(a->buffer);
    }
    body = a->body;
  }
  const Block* block = body.as<Block>();
  if (t.tiles.empty() || !block) return {};
  size_t first_use = 0;
  while (first_use < block->stmts.size() && writes(block->stmts[first_use], t)) ++first_use;
  std::vector<Stmt> fill(block->stmts.begin(), block->stmts.begin() + static_cast<long>(first_use));
  std::vector<Stmt> use(block->stmts.begin() + static_cast<long>(first_use), block->stmts.end());
  const Stmt produce = make_block(fill), consume = make_block(use);
  if (!produce || !consume || writes(consume, t)) return {};

  const int ahead = t.copies - 1;
  std::vector<Buffer> rings;
  for (const Buffer& b : t.tiles) {
    rings.push_back(Buffer::make(b->name, b->dtype, {Expr(elements(b) * t.copies)}, b->scope));
  }
  const Expr n = loop.extent, copies(int64_t{t.copies});
  auto filled = [&](const Expr& k) {
    Stmt s = substitute(produce, {{loop.var, k}});
    s = Rotated(t, rings, floormod(k, copies), shared).apply(s, {});
    return make_if(k < n, s);
  };
  std::vector<Stmt> out;
  // The last round may still be in use.
  if (repeated && shared) out.push_back(make_sync(SyncKind::Block));
  for (int i = 0; i < ahead; ++i) {
    out.push_back(filled(Expr(int64_t{i})));
    if (shared) out.push_back(make_sync(SyncKind::AsyncCommit));
  }
  const Expr k = loop.var.expr();
  std::vector<Stmt> round;
  if (shared) {
    round = {make_sync(SyncKind::AsyncWait, ahead - 1), make_sync(SyncKind::Block),
             filled(k + Expr(int64_t{ahead})), make_sync(SyncKind::AsyncCommit)};
  } else {
    round = {filled(k + Expr(int64_t{ahead}))};  // registers of one thread: nothing to wait for
  }
  round.push_back(Rotated(t, rings, floormod(k, copies), false).apply(consume, {}));
  Stmt inner = make_block(std::move(round));
  for (const Buffer& b : others) inner = make_allocate(b, inner);
  out.push_back(make_for(loop.var, n, loop.loop, inner));
  Stmt s = make_block(std::move(out));
  for (const Buffer& b : rings) {
    s = make_allocate(b, s, t.copies);
    made->push_back(b);
  }
  return s;
}

// Inner loops first: what they load ahead is part of what the outer ones compute.
Stmt run(const Stmt& s, bool repeated, std::vector<Buffer>* made) {
  if (!s) return s;
  const For* f = s.as<For>();
  const bool serial = f && !is_block(f->loop) && !is_thread(f->loop);
  const Stmt r = map_children(
      s, [&](const Stmt& c) { return run(c, repeated || serial, made); },
      [](const Expr& e) { return e; });
  if (!serial || !r || !r.as<For>() || !r.as<For>()->body.as<Allocate>()) return r;
  const Stmt p = pipelined(*r.as<For>(), repeated, made);
  return p ? p : r;
}

// What had nothing to overlap with: one copy, and barriers like any other memory.
Stmt drop_copies(const Stmt& s, const std::vector<Buffer>& rings) {
  const Stmt r = map_children(
      s, [&](const Stmt& c) { return drop_copies(c, rings); }, [](const Expr& e) { return e; });
  const Allocate* a = r ? r.as<Allocate>() : nullptr;
  if (!a || a->copies == 1 || std::find(rings.begin(), rings.end(), a->buffer) != rings.end())
    return r;
  return make_allocate(a->buffer, a->body);
}

}  // namespace

Stmt software_pipeline(const Stmt& s) {
  std::vector<Buffer> rings;
  const Stmt r = run(s, false, &rings);
  return drop_copies(r, rings);
}

}  // namespace heddle::gpu
