#include "lower/gpu/warp_group/stored_tiles.h"

#include <algorithm>

#include "heddle/instruction/tiles.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"

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

}  // namespace

Stmt by_one_thread(const Stmt& s) {
  return make_for(Var("lane"), Expr(1), LoopKind::ThreadX,
                  make_for(Var("warp"), Expr(1), LoopKind::ThreadY, s));
}

bool has_bulk_store(const Stmt& s) {
  bool found = false;
  visit(s, [&](const Stmt& x) { found |= as_bulk_store(x) != nullptr; }, [](const Expr&) {});
  return found;
}

bool is_stored_tile(const Allocate& a) {
  bool found = false;
  visit(
      a.body,
      [&](const Stmt& x) {
        const TileOp* op = as_bulk_store(x);
        found |= op && op->operands[0].buffer == a.buffer;
      },
      [](const Expr&) {});
  return found;
}

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

Stmt filled_tile(const Stmt& fill, const std::vector<Buffer>& tiles) {
  return make_block({wait_for_copies(), make_sync(SyncKind::WarpGroup), with_swizzle(fill, tiles)});
}

Stmt copied_tile(const Stmt& s) {
  return make_block({make_sync(SyncKind::StoreFence), make_sync(SyncKind::WarpGroup),
                     by_one_thread(make_block({s, make_sync(SyncKind::StoreCommit)}))});
}

Stmt wait_for_copies() { return by_one_thread(make_sync(SyncKind::StoreWait, 0)); }

}  // namespace heddle::gpu
