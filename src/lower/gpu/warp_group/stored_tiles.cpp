#include "lower/gpu/warp_group/stored_tiles.h"

#include <algorithm>

#include "heddle/instruction/tiles.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/warp_group/group_order.h"
#include "lower/gpu/warp_group/tile_ring.h"

namespace heddle::gpu {
namespace {

const TileOp* as_bulk_store(const Stmt& s) {
  return tile_operation<tile::BulkStore>(s) ? s.as<TileOp>() : nullptr;
}

// The place of element `at` of a tile whose rows of 128 bytes are swizzled: piece p of 16 bytes of
// row r is at p ^ (r % 8). Written as a distance, because unrolled stores then differ by constants,
// but for the eight pieces.
Expr swizzled(const Expr& at, DataType type) {
  const Expr size(16 / type.bytes()), pieces(8);
  const Expr piece = simplify(floormod(floordiv(at, size), pieces)),
             row = simplify(floormod(floordiv(at, Expr(tma::row_elements(type))), pieces));
  return at + (make_binary(BinaryOp::BitXor, piece, row) - piece) * size;
}

bool is_in(const Buffer& b, const std::vector<Buffer>& list) {
  return std::find(list.begin(), list.end(), b) != list.end();
}

Stmt with_swizzle(const Stmt& s, const std::vector<Buffer>& tiles) {
  if (const Store* st = s.as<Store>(); st && is_in(st->buffer, tiles)) {
    const Ramp* run = st->indices[0].as<Ramp>();
    HEDDLE_ICHECK(st->indices.size() == 1 && (!run || is_const(run->stride, 1)),
                  "a tile for TMA is filled by runs of elements");
    const Expr at = swizzled(run ? run->base : st->indices[0], st->buffer->dtype);
    return make_store(st->buffer,
                      {run ? make_ramp(at, run->stride, st->indices[0].dtype().lanes) : at},
                      st->value, st->hint);
  }
  return map_children(
      s, [&](const Stmt& c) { return with_swizzle(c, tiles); }, [](const Expr& e) { return e; });
}

bool has_bulk_store(const Stmt& s) {
  bool found = false;
  visit(s, [&](const Stmt& x) { found |= as_bulk_store(x) != nullptr; }, [](const Expr&) {});
  return found;
}

// Whether `s` stores to one of `tiles`.
bool fills(const Stmt& s, const std::vector<Buffer>& tiles) {
  bool found = false;
  visit(
      s,
      [&](const Stmt& x) {
        const Store* st = x.as<Store>();
        found |= st && is_in(st->buffer, tiles);
      },
      [](const Expr&) {});
  return found;
}

// Whether lanes in `s` read one of `tiles`.
bool reads(const Stmt& s, const std::vector<Buffer>& tiles) {
  bool found = false;
  visit(
      s, [](const Stmt&) {},
      [&](const Expr& e) {
        const Load* load = e.as<Load>();
        found |= load && is_in(load->buffer, tiles);
      });
  return found;
}

Stmt wait_for_copies() { return by_one_thread(make_sync(SyncKind::StoreWait, 0)); }

// `fill` after the earlier copy. Where TMA makes it, pieces of each row of the tiles are where it expects them.
Stmt filled_tile(const Stmt& fill, const std::vector<Buffer>& tiles, bool by_tma) {
  const Stmt group = make_sync(SyncKind::WarpGroup);
  return by_tma ? make_block({wait_for_copies(), group, with_swizzle(fill, tiles)})
                : make_block({group, fill});
}

// The copy `s`, by BulkStores or lanes, after all threads have filled the tile.
Stmt copied_tile(const Stmt& s, bool by_tma) {
  if (!by_tma) return make_block({make_sync(SyncKind::WarpGroup), s});
  return make_block({make_sync(SyncKind::StoreFence), make_sync(SyncKind::WarpGroup),
                     by_one_thread(make_block({s, make_sync(SyncKind::StoreCommit)}))});
}

}  // namespace

Stmt by_one_thread(const Stmt& s) {
  return make_for(Var("lane"), Expr(1), LoopKind::ThreadX,
                  make_for(Var("warp"), Expr(1), LoopKind::ThreadY, s));
}

bool is_stored_tile(const Allocate& a) {
  return a.buffer->scope == Scope::Shared && a.copies == 1 && fills(a.body, {a.buffer});
}

Stmt StoredTiles::open(const Allocate& tile, FunctionRef<Stmt(const Stmt&)> rewrite) {
  const size_t number = tiles_.size();
  tiles_.push_back(tile.buffer);
  by_tma_ = has_bulk_store(tile.body);
  const Stmt inside = rewrite(tile.body);
  if (!order_.alternate()) return inside;
  FillAndUse both;
  both.t = {{tile.buffer}, 2};
  both.rings = {Buffer::make(tile.buffer->name, tile.buffer->dtype,
                             {Expr(2 * tile.buffer.num_elements())}, Scope::Shared)};
  tiles_[number] = both.rings[0];
  return in_slot(inside, both, order_.warp_group().expr(), false);
}

Stmt StoredTiles::around(const Stmt& s, FunctionRef<Stmt(const Stmt&)> rewrite) {
  const bool whole = !tiles_.empty() && !inside_ && !s.as<Block>() && !s.as<Allocate>(),
             fill = whole && fills(s, tiles_),
             copy = whole && (by_tma_ ? has_bulk_store(s) : reads(s, tiles_));
  if (fill == copy) return rewrite(s);
  inside_ = true;
  const Stmt result = rewrite(s);
  inside_ = false;
  return fill ? filled_tile(result, tiles_, by_tma_) : copied_tile(result, by_tma_);
}

Stmt StoredTiles::end() const { return by_tma_ ? wait_for_copies() : Stmt(); }

}  // namespace heddle::gpu
