#include "lower/gpu/turns.h"

#include "heddle/ir/simplify.h"
#include "heddle/ir/sizes.h"
#include "heddle/support/error.h"
#include "lower/gpu/group_nest.h"

namespace heddle::gpu {
namespace {

constexpr int64_t kLanes = 32, kGroupThreads = kLanes * kGroupWarps, kVector = 4;

bool is_bulk_load(const Stmt& s) {
  const TileOp* op = s.as<TileOp>();
  return op && op->op == TileOpKind::BulkLoad;
}

const For* find_ring(const Stmt& s) {
  const For* found = nullptr;
  visit(
      s,
      [&](const Stmt& x) {
        if (!found && ring_of(x)) found = x.as<For>();
      },
      [](const Expr&) {});
  return found;
}

Stmt replaced(const Stmt& s, const For* from, const Stmt& to) {
  if (!s) return s;
  if (s.get() == from) return to;
  return map_children(
      s, [&](const Stmt& c) { return replaced(c, from, to); }, [](const Expr& e) { return e; });
}

// Each block runs every `blocks`th iteration. Where their number depends on sizes, a call of fewer
// iterations has as many blocks.
Stmt by_turns(const For& f, int64_t blocks) {
  const int64_t most = largest_extent(f.extent);
  if (most <= blocks) return make_for(f.var, f.extent, LoopKind::BlockX, f.body);
  const Var block("block"), turn("turn");
  const Expr &n = f.extent, count(blocks), at = turn.expr() * count + block.expr();
  const Stmt once = make_if(at < n, substitute(f.body, {{f.var, at}}));
  const Expr turns = simplify(floordiv(n + Expr(blocks - 1), count));
  return make_for(block, simplify(min(n, count)), LoopKind::BlockX,
                  make_for(turn, turns, LoopKind::Serial, once));
}

// The last turn is shared.
Stmt by_shared_turns(const For& f, int64_t blocks, const For& ring, SharedTiles& s) {
  const int64_t rounds = *as_int(f.extent) / blocks;
  const Var block("block"), turn("turn"), tile("tile"), first("first"), steps("steps");
  const Expr b = block.expr(), is_last = turn.expr() >= Expr(rounds);
  s.tile = floordiv(b, Expr(s.round.parts));
  s.part = floormod(b, Expr(s.round.parts));
  s.shared = rounds > 0 ? is_last : Expr();
  const auto either = [&](const Expr& last, const Expr& other) {
    return rounds > 0 ? make_select(is_last, last, other) : last;
  };
  const Stmt part = make_for(ring.var, steps.expr(), ring.loop,
                             substitute(ring.body, {{ring.var, first.expr() + ring.var.expr()}}));
  Stmt body = substitute(replaced(f.body, &ring, part), {{f.var, tile.expr()}});
  const Expr depth(s.depth), begin = s.part * Expr(s.round.steps);
  body = make_let(steps, either(min(Expr(s.round.steps), depth - first.expr()), depth), body);
  body = make_let(first, either(begin, Expr(0)), body);
  body =
      make_let(tile, either(Expr(rounds * blocks) + s.tile, turn.expr() * Expr(blocks) + b), body);
  if (rounds == 0) return make_for(block, Expr(s.round.units()), LoopKind::BlockX, body);
  const Stmt once = make_if(turn.expr() < Expr(rounds) || b < Expr(s.round.units()), body);
  return make_for(block, Expr(blocks), LoopKind::BlockX,
                  make_for(turn, Expr(rounds + 1), LoopKind::Serial, once));
}

// All threads of a warp group run `body`, which is given the number of each.
Stmt by_group(FunctionRef<Stmt(const Expr&)> body) {
  const Var lane("lane"), warp("warp");
  return make_for(warp, Expr(kGroupWarps), LoopKind::ThreadY,
                  make_for(lane, Expr(kLanes), LoopKind::ThreadX,
                           body(warp.expr() * Expr(kLanes) + lane.expr())));
}

// Four sums of each thread at a time: `of(index in the registers, index in memory from `first`)`.
Stmt for_all_sums(const Buffer& sums, const Expr& first,
                  FunctionRef<Stmt(const Expr&, const Expr&)> of) {
  return by_group([&](const Expr& thread) {
    const Var i("i");
    const Expr registers = make_ramp(i.expr() * Expr(kVector), Expr(1), kVector),
               memory = make_ramp(
                   first + i.expr() * Expr(kVector * kGroupThreads) + thread * Expr(kVector),
                   Expr(1), kVector);
    return make_for(i, Expr(sums.num_elements() / kVector), LoopKind::Unrolled,
                    of(registers, memory));
  });
}

}  // namespace

bool has_bulk_load(const Stmt& s) {
  bool found = false;
  visit(s, [&](const Stmt& x) { found |= is_bulk_load(x); }, [](const Expr&) {});
  return found;
}

std::optional<FillAndUse> ring_of(const Stmt& s) {
  const For* f = s.as<For>();
  if (!f || f->loop != LoopKind::Serial) return {};
  std::optional<FillAndUse> p = fill_and_use(*f, Scope::Shared);
  return p && has_bulk_load(p->fill) ? p : std::nullopt;
}

Stmt with_ring(const Stmt& s) {
  if (!s || !has_bulk_load(s) || ring_of(s)) return s;
  const Allocate* a = s.as<Allocate>();
  if (a && a->buffer->scope == Scope::Shared && a->copies > 1) {
    const Stmt once = make_for(Var("k"), Expr(1), LoopKind::Serial, s);
    if (ring_of(once)) return once;
  }
  return map_children(s, with_ring, [](const Expr& e) { return e; });
}

Stmt in_turns(const Stmt& s, int64_t blocks, std::optional<SharedTiles>* shared) {
  const For* f = s ? s.as<For>() : nullptr;
  const bool streams = f && f->loop == LoopKind::StreamX;
  if (!streams && (!f || f->loop != LoopKind::PersistentX)) {
    return map_children(
        s, [&](const Stmt& c) { return in_turns(c, blocks, shared); },
        [](const Expr& e) { return e; });
  }
  const For* ring = streams ? find_ring(f->body) : nullptr;
  const int64_t *depth = ring ? as_int(ring->extent) : nullptr, *n = as_int(f->extent);
  if (!depth || !n) return by_turns(*f, blocks);
  SharedTiles tiles;
  tiles.depth = *depth;
  tiles.round = last_round(*n, blocks, *depth);
  if (tiles.round.parts < 2) return by_turns(*f, blocks);
  const Stmt out = by_shared_turns(*f, blocks, *ring, tiles);
  *shared = std::move(tiles);
  return out;
}

Stmt with_all_parts(SharedTiles& s, const Buffer& sums, const Expr& group, int64_t groups,
                    const Stmt& rest) {
  const int64_t of_group = sums.num_elements() * kGroupThreads, parts = s.round.parts;
  HEDDLE_ICHECK(sums.num_elements() % kVector == 0, "a thread has a multiple of four sums");
  s.parts = Buffer::make(sums->name + ".parts", sums->dtype,
                         {Expr(s.round.tiles * groups * parts * of_group)}, Scope::Global);
  s.tickets = Buffer::make("tickets", u32, {Expr(s.round.tiles * groups)}, Scope::Global);
  const Expr number = s.tile * Expr(groups) + group;
  const auto first = [&](const Expr& part) {
    return (number * Expr(parts) + part) * Expr(of_group);
  };
  const auto load = [&](const Expr& at) { return make_load(s.parts, {at}); };
  const Stmt store = for_all_sums(sums, first(s.part), [&](const Expr& r, const Expr& m) {
    return make_store(s.parts, {m}, make_load(sums, {r}));
  });
  const Stmt begin = for_all_sums(sums, first(Expr(0)), [&](const Expr& r, const Expr& m) {
    return make_store(sums, {r}, load(m));
  });
  const Var p("part");
  const Stmt add = for_all_sums(sums, first(p.expr() + Expr(1)), [&](const Expr& r, const Expr& m) {
    return make_store(sums, {r}, make_load(sums, {r}) + load(m));
  });
  const Buffer last = Buffer::make("last", i32, {Expr(1)}, Scope::Local);
  const Expr is_last = make_load(last, {Expr(0)}) > make_const(i32, 0);
  const Stmt arrive = make_group_op(
      TileOpKind::LastArrival, {{last, Expr(0)}, {s.tickets, number}, {s.parts, first(Expr(0))}},
      static_cast<int>(parts), static_cast<int>(parts * of_group), 0, 0);
  const Stmt sum =
      make_if(is_last, make_block({begin, make_for(p, Expr(parts - 1), LoopKind::Serial, add)}));
  const Stmt fix_up = make_block({store, arrive, sum});
  return make_allocate(last, make_block({make_store(last, {Expr(0)}, make_const(i32, 1)),
                                         s.shared.defined() ? make_if(s.shared, fix_up) : fix_up,
                                         make_if(is_last, rest)}));
}

}  // namespace heddle::gpu
