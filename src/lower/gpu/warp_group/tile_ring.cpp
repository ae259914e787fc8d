#include "lower/gpu/warp_group/tile_ring.h"

#include <algorithm>

namespace heddle::gpu {
namespace {

bool writes(const Stmt& s, const Tiles& t) {
  bool found = false;
  visit(
      s,
      [&](const Stmt& x) {
        if (const Store* st = x.as<Store>()) found |= t.has(st->buffer);
        const TileOp* op = x.as<TileOp>();
        if (op && !op->as<tile::Mma>()) found |= t.has(op->operands[0].buffer);
      },
      [](const Expr&) {});
  return found;
}

// Whether `s` does nothing but load boxes, which come from arguments that the kernel only reads.
bool only_loads_boxes(const Stmt& s) {
  bool only = true;
  visit(
      s,
      [&](const Stmt& x) {
        const TileOp* op = x.as<TileOp>();
        only &= x.kind() != StmtKind::Store && x.kind() != StmtKind::Sync &&
                (!op || op->as<tile::BulkLoad>());
      },
      [](const Expr&) {});
  return only;
}

// Whether a store is a copy that cp.async can do: 4, 8 or 16 bytes as they lie, from global memory.
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

class Rotation {
 public:
  Rotation(const FillAndUse& p, Expr slot, bool producer)
      : from_(p.t), to_(p.rings), slot_(std::move(slot)), producer_(producer) {}

  Stmt apply(const Stmt& s, Ranges ranges) const {
    if (!s) return s;
    if (const For* f = s.as<For>()) {
      const Interval n = range_of(f->extent, ranges);
      ranges.set(f->var, {0, std::max<int64_t>(0, n.max - 1)});
    }
    if (const Store* st = s.as<Store>(); st && from_.has(st->buffer)) {
      const bool async = producer_ && can_be_async(*st, ranges);
      return make_store(ring(st->buffer), {shift(st->buffer, apply(st->indices[0]))},
                        apply(st->value), async ? StoreHint::Async : st->hint);
    }
    if (const TileOp* op = s.as<TileOp>()) return tile_op(*op);
    return map_children(
        s, [&](const Stmt& c) { return apply(c, ranges); },
        [&](const Expr& e) { return apply(e); });
  }

 private:
  Expr apply(const Expr& e) const {
    RewriteMemo memo;
    return apply(e, memo);
  }
  Expr apply(const Expr& e, RewriteMemo& memo) const {
    return memo(e, [&](const Expr& x) { return apply_node(x, memo); });
  }
  Expr apply_node(const Expr& e, RewriteMemo& memo) const {
    const Load* load = e.as<Load>();
    if (load && from_.has(load->buffer))
      return make_load(ring(load->buffer), {shift(load->buffer, apply(load->indices[0], memo))});
    return map_children(e, [&](const Expr& c) { return apply(c, memo); });
  }
  Stmt tile_op(const TileOp& op) const {
    std::vector<TileOperand> operands;
    for (const TileOperand& o : op.operands) {
      const bool tile = from_.has(o.buffer);
      operands.push_back(
          {tile ? ring(o.buffer) : o.buffer, tile ? shift(o.buffer, o.index) : o.index});
    }
    return make_tile_op(op.op, std::move(operands));
  }
  const Buffer& ring(const Buffer& b) const {
    const auto& tiles = from_.tiles;
    return to_[static_cast<size_t>(std::find(tiles.begin(), tiles.end(), b) - tiles.begin())];
  }
  Expr shift(const Buffer& b, const Expr& index) const {
    Expr by = slot_ * Expr(b.num_elements());
    if (const Ramp* r = index.as<Ramp>())
      return make_ramp(r->base + by, r->stride, index.dtype().lanes);
    return index + by;
  }

  const Tiles& from_;
  const std::vector<Buffer>& to_;
  Expr slot_;
  bool producer_;
};

}  // namespace

bool Tiles::has(const Buffer& b) const {
  return std::find(tiles.begin(), tiles.end(), b) != tiles.end();
}

std::optional<FillAndUse> fill_and_use(const For& loop, Scope scope) {
  FillAndUse r;
  Stmt body = loop.body;
  while (const Allocate* a = body.as<Allocate>()) {
    if (a->copies > 1) {
      if (a->buffer->scope != scope) return {};
      r.t.tiles.push_back(a->buffer);
      r.t.copies = std::max(r.t.copies, a->copies);
    } else {
      r.others.push_back(a->buffer);
    }
    body = a->body;
  }
  const Block* block = body.as<Block>();
  if (r.t.tiles.empty() || !block) return {};
  // Loads of boxes between uses of others come first too.
  std::vector<Stmt> fill, use;
  for (const Stmt& s : block->stmts) {
    const bool first = writes(s, r.t) && (use.empty() || only_loads_boxes(s));
    (first ? fill : use).push_back(s);
  }
  r.fill = make_block(std::move(fill));
  r.use = make_block(std::move(use));
  if (!r.fill || !r.use || writes(r.use, r.t)) return {};
  for (const Buffer& b : r.t.tiles) {
    r.rings.push_back(
        Buffer::make(b->name, b->dtype, {Expr(b.num_elements() * r.t.copies)}, b->scope));
  }
  return r;
}

Expr slot(const Tiles& t, const Expr& k) { return floormod(k, Expr(int64_t{t.copies})); }

Stmt in_slot(const Stmt& s, const FillAndUse& p, const Expr& slot, bool producer) {
  return Rotation(p, slot, producer).apply(s, {});
}

}  // namespace heddle::gpu
