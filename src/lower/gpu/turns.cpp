#include "lower/gpu/turns.h"

#include "heddle/ir/simplify.h"
#include "heddle/ir/sizes.h"
#include "heddle/target/last_round.h"

namespace heddle::gpu {
namespace {

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
Stmt by_turns(const For& f, int64_t blocks, Turns* turns) {
  const int64_t most = largest_extent(f.extent);
  if (most <= blocks) return make_for(f.var, f.extent, LoopKind::BlockX, f.body);
  const Var block("block"), turn("turn");
  const Expr &n = f.extent, count(blocks), at = turn.expr() * count + block.expr();
  const Stmt once = make_if(at < n, substitute(f.body, {{f.var, at}}));
  const Expr rounds = simplify(floordiv(n + Expr(blocks - 1), count));
  turns->turn = turn;
  return make_for(block, simplify(min(n, count)), LoopKind::BlockX,
                  make_for(turn, rounds, LoopKind::Serial, once));
}

// The body of `f` for a part of the depth: `steps` steps from `first` on.
Stmt part_of(const For& f, const For& ring, const Var& tile, const Var& first, const Var& steps) {
  const Stmt part = make_for(ring.var, steps.expr(), ring.loop,
                             substitute(ring.body, {{ring.var, first.expr() + ring.var.expr()}}));
  return substitute(replaced(f.body, &ring, part), {{f.var, tile.expr()}});
}

// The steps of a group of tiles in the last round that a block computes: from `begin` to `end`, one
// tile behind the other.
struct Run {
  Expr first_tile;  // of the group
  Expr begin, end;
};
Run run_of(const LastRound& last, const Expr& block) {
  const Expr group = floordiv(block, Expr(last.group_blocks)),
             begin = floormod(block, Expr(last.group_blocks)) * Expr(last.run);
  Run r{group * Expr(last.group_tiles), begin, begin + Expr(last.run)};
  // Groups are full but for the last one, and beyond it there is none.
  const Expr tiles = max(min(Expr(last.tiles) - r.first_tile, Expr(last.group_tiles)), Expr(0)),
             steps = tiles * Expr(last.depth);
  r.begin = min(r.begin, steps);
  r.end = min(r.end, steps);
  return r;
}

// The parts of tile `tile` of a group for block `b`, whose part begins at step `first` of the tile
// and has `steps`.
SharedTiles parts_of(const LastRound& last, const Expr& b, const Expr& tile, const Expr& first,
                     const Expr& steps) {
  const Expr depth(last.depth), run(last.run), blocks(last.group_blocks),
      group = floordiv(b, blocks), begins = first < Expr(1);
  SharedTiles t;
  t.shared = steps < depth;
  t.looks = begins;
  t.number = group * Expr(last.group_tiles) + tile;
  t.tiles = last.tiles;
  t.slots = last.units();
  t.own = b;
  t.first = group * blocks;
  t.parts = blocks;
  if (last.group_tiles == 1) return t;
  // A block has a slot for the tile that it ends and one for the tile that it begins.
  const Expr from = floordiv(tile * depth, run),
             to = floordiv((tile + Expr(1)) * depth - Expr(1), run);
  t.parts = to - from + Expr(1);
  t.own = b * Expr(2) + make_select(begins, Expr(1), Expr(0));
  t.first = (t.first + from) * Expr(2) + Expr(1);
  t.distance = 2;
  t.slots = 2 * last.units();
  return t;
}

// Whole tiles first, then the block's run of the last round.
Stmt by_shared_turns(const For& f, int64_t blocks, const For& ring, const LastRound& last,
                     Turns* turns) {
  const int64_t rounds = *as_int(f.extent) / blocks;
  const Var block("block"), turn("turn"), begin("begin"), end("end"), of_group("of_group"),
      tile("tile"), first("first"), steps("steps"), before("before");
  const Expr b = block.expr(), t = turn.expr(), &depth = ring.extent, is_last = t >= Expr(rounds);
  const Run run = run_of(last, b);
  const auto either = [&](const Expr& in_last, const Expr& other) {
    return rounds > 0 ? make_select(is_last, in_last, other) : in_last;
  };
  const Expr first_tile = floordiv(begin.expr(), depth), at = of_group.expr() * depth;
  turns->turn = turn;
  turns->before = before.expr();
  turns->shared = parts_of(last, b, of_group.expr(), first.expr(), steps.expr());
  Stmt body = part_of(f, ring, tile, first, steps);
  const Expr done = Expr(rounds) * depth + at + first.expr() - begin.expr();
  body = make_let(before, either(done, t * depth), body);
  body = make_let(steps, either(min(end.expr() - at, depth) - first.expr(), depth), body);
  body = make_let(first, either(max(begin.expr() - at, Expr(0)), Expr(0)), body);
  body = make_let(
      tile, either(Expr(rounds * blocks) + run.first_tile + of_group.expr(), t * Expr(blocks) + b),
      body);
  body = make_let(of_group, first_tile + t - Expr(rounds), body);
  const Expr tiles =
      make_select(begin.expr() < end.expr(),
                  floordiv(end.expr() + depth - Expr(1), depth) - first_tile, Expr(0));
  body = make_for(turn, Expr(rounds) + tiles, LoopKind::Serial, body);
  body = make_let(end, run.end, body);
  const int64_t all = rounds > 0 ? blocks : last.units();
  return make_for(block, Expr(all), LoopKind::BlockX, make_let(begin, run.begin, body));
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

Stmt in_turns(const Stmt& s, int64_t blocks, Turns* turns) {
  const For* f = s ? s.as<For>() : nullptr;
  if (!f || !is_persistent(f->loop)) {
    return map_children(
        s, [&](const Stmt& c) { return in_turns(c, blocks, turns); },
        [](const Expr& e) { return e; });
  }
  turns->alternate = f->loop == LoopKind::AlternateX || f->loop == LoopKind::AlternateStreamX;
  const For* ring = find_ring(f->body);
  const int64_t *depth = ring ? as_int(ring->extent) : nullptr, *n = as_int(f->extent);
  if (!depth || !n) return by_turns(*f, blocks, turns);
  const LastRound last = last_round(*n, blocks, *depth);
  const bool streams = f->loop == LoopKind::StreamX || f->loop == LoopKind::AlternateStreamX;
  if (streams && last.shares()) return by_shared_turns(*f, blocks, *ring, last, turns);
  return by_turns(*f, blocks, turns);
}

}  // namespace heddle::gpu
