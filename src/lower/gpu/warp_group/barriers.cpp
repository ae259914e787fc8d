#include "lower/gpu/warp_group/barriers.h"

#include "heddle/support/error.h"

namespace heddle::gpu {
namespace {

// The bytes of all boxes that `s` loads.
int64_t bytes_of(const Stmt& s) {
  if (const auto* load = tile_operation<tile::BulkLoad>(s))
    return int64_t{load->box.rows} * load->box.columns *
           s.as<TileOp>()->operands[0].buffer->dtype.bytes();
  // A barrier that expects bytes of a box that is not loaded would wait for ever.
  HEDDLE_ICHECK(!s.as<If>(), "a box is loaded on a condition");
  int64_t bytes = 0;
  const For* f = s.as<For>();
  map_children(
      s,
      [&](const Stmt& c) {
        bytes += bytes_of(c);
        return c;
      },
      [](const Expr& e) { return e; });
  if (!f) return bytes;
  const int64_t* times = as_int(f->extent);
  HEDDLE_ICHECK(times, "the loop over '" + f->var->name + "' loads a varying number of boxes");
  return bytes * *times;
}

Stmt with_barrier(const Stmt& s, const TileOperand& barrier, const std::optional<Var>& rank) {
  if (const auto* loaded = tile_operation<tile::BulkLoad>(s)) {
    tile::BulkLoad load = *loaded;
    std::vector<TileOperand> operands = s.as<TileOp>()->operands;
    load.by_pair = rank && load.box.rows % 16 == 0 && load.windows.empty();
    for (const TileOperand& o : operands) load.by_pair = load.by_pair && !uses_var(o.index, *rank);
    operands.push_back(barrier);
    return make_tile_op(std::move(load), std::move(operands));
  }
  return map_children(
      s, [&](const Stmt& c) { return with_barrier(c, barrier, rank); },
      [](const Expr& e) { return e; });
}

}  // namespace

Stmt on_barrier(tile::Operation op, const Buffer& barrier, const Expr& slot) {
  return make_tile_op(std::move(op), {{barrier, slot}});
}

Stmt wait_at(const Buffer& barrier, const Expr& slot, const Expr& parity) {
  return make_tile_op(tile::BarrierWait{}, {{barrier, slot}, {barrier, parity}});
}

Stmt arriving(const Stmt& loads, const Buffer& barrier, const Expr& slot,
              const std::optional<Var>& rank) {
  return make_block(
      {on_barrier(tile::BarrierExpect{static_cast<int>(bytes_of(loads))}, barrier, slot),
       with_barrier(loads, {barrier, slot}, rank)});
}

}  // namespace heddle::gpu
