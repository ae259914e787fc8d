#include "lower/gpu/warp_group/turns.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "heddle/ir/simplify.h"
#include "heddle/target/last_round.h"
#include "ir/sizes.h"

namespace heddle::gpu {
namespace {

bool is_bulk_load(const Stmt& s) { return tile_operation<tile::BulkLoad>(s) != nullptr; }

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

// The last round of tiles whose number may depend on sizes.
struct SharedRound {
  Expr rounds;  // full ones before it
  Expr tiles, group_blocks, run;
  int64_t depth = 0, group_tiles = 1;
  int64_t most_tiles = 0, most_parts = 0;  // of this round: tiles that are shared, and their parts
  Expr blocks;                             // of the launch
  std::vector<std::pair<Var, Expr>> lets;  // what the expressions above use
};

SharedRound shared_round(int64_t tiles, int64_t blocks, const LastRound& last) {
  const int64_t rounds = tiles / blocks;
  return {Expr(rounds),
          Expr(last.tiles),
          Expr(last.group_blocks),
          Expr(last.run),
          last.depth,
          last.group_tiles,
          last.tiles,
          last.units(),
          Expr(rounds > 0 ? blocks : last.units()),
          {}};
}

// The same where the number of tiles depends on sizes: each tile is cut into as many parts as there
// are blocks for, after last_round for groups of one tile. Nullopt where there is never more than
// one part.
std::optional<SharedRound> shared_round_of_sizes(const Expr& tiles, int64_t blocks, int64_t depth) {
  const LastRound one = last_round(1, blocks, depth);  // the most parts
  if (!one.shares()) return {};
  const int64_t most = largest_extent(tiles);
  const Var here("here"), parts("parts"), run("run");
  SharedRound r{.rounds = most < blocks ? Expr(0) : floordiv(tiles, Expr(blocks)),
                .tiles = here.expr(),
                .group_blocks = parts.expr(),
                .run = run.expr(),
                .depth = depth,
                .most_tiles = std::min(most, blocks / 2),
                .most_parts = blocks,
                .blocks = simplify(min(tiles * Expr(one.group_blocks), Expr(blocks))),
                .lets = {}};
  Expr parts_of = Expr(1), run_of = Expr(depth);
  int64_t before = depth;
  for (int64_t n = 2; n <= one.group_blocks; ++n) {
    const int64_t steps = (depth + n - 1) / n;
    if (steps == before) continue;
    before = steps;
    const Expr fits = here.expr() < Expr(blocks / n + 1);
    parts_of = make_select(fits, Expr((depth + steps - 1) / steps), parts_of);
    run_of = make_select(fits, Expr(steps), run_of);
  }
  r.lets = {{here, simplify(most < blocks ? tiles : floormod(tiles, Expr(blocks)))},
            {parts, parts_of},
            {run, run_of}};
  return r;
}

// The steps of a group of tiles in the last round that a block computes: from `begin` to `end`, one
// tile behind the other.
struct Run {
  Expr first_tile;  // of the group
  Expr begin, end;
};
Run run_of(const SharedRound& last, const Expr& block) {
  const Expr group = floordiv(block, last.group_blocks),
             begin = floormod(block, last.group_blocks) * last.run;
  Run r{group * Expr(last.group_tiles), begin, begin + last.run};
  // Groups are full but for the last one, and beyond it there is none.
  const Expr tiles = max(min(last.tiles - r.first_tile, Expr(last.group_tiles)), Expr(0)),
             steps = tiles * Expr(last.depth);
  r.begin = min(r.begin, steps);
  r.end = min(r.end, steps);
  return r;
}

// The parts of tile `tile` of a group for block `b`, whose part begins at step `first` of the tile
// and has `steps`.
SharedTiles parts_of(const SharedRound& last, const Expr& b, const Expr& tile, const Expr& first,
                     const Expr& steps) {
  const Expr depth(last.depth), &run = last.run, &blocks = last.group_blocks,
                                group = floordiv(b, blocks), begins = first < Expr(1);
  SharedTiles t;
  t.shared = steps < depth;
  t.looks = begins;
  t.number = group * Expr(last.group_tiles) + tile;
  t.tiles = last.most_tiles;
  t.slots = last.most_parts;
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
  t.slots = 2 * last.most_parts;
  return t;
}

// Whole tiles first, then the block's run of the last round.
Stmt by_shared_turns(const For& f, int64_t blocks, const For& ring, const SharedRound& last,
                     Turns* turns) {
  const Var block("block"), turn("turn"), begin("begin"), end("end"), of_group("of_group"),
      tile("tile"), first("first"), steps("steps"), before("before");
  const Expr b = block.expr(), t = turn.expr(), &depth = ring.extent, &rounds = last.rounds,
             is_last = t >= rounds;
  const Run run = run_of(last, b);
  const auto either = [&](const Expr& in_last, const Expr& other) {
    return is_const(rounds, 0) ? in_last : make_select(is_last, in_last, other);
  };
  const bool one = last.group_tiles == 1;
  const Expr first_tile = one ? Expr(0) : floordiv(begin.expr(), depth),
             in_group = one ? Expr(0) : of_group.expr(), at = in_group * depth;
  turns->turn = turn;
  turns->before = before.expr();
  turns->shared = parts_of(last, b, in_group, first.expr(), steps.expr());
  Stmt body = part_of(f, ring, tile, first, steps);
  const Expr done = rounds * depth + at + first.expr() - begin.expr();
  body = make_let(before, either(done, t * depth), body);
  body = make_let(steps, either(min(end.expr() - at, depth) - first.expr(), depth), body);
  body = make_let(first, either(max(begin.expr() - at, Expr(0)), Expr(0)), body);
  body = make_let(
      tile, either(rounds * Expr(blocks) + run.first_tile + in_group, t * Expr(blocks) + b), body);
  if (!one) body = make_let(of_group, first_tile + t - rounds, body);
  const Expr tiles =
      make_select(begin.expr() < end.expr(),
                  floordiv(end.expr() + depth - Expr(1), depth) - first_tile, Expr(0));
  body = make_for(turn, rounds + tiles, LoopKind::Serial, body);
  body = make_let(begin, run.begin, make_let(end, run.end, body));
  for (size_t i = last.lets.size(); i-- > 0;)
    body = make_let(last.lets[i].first, last.lets[i].second, body);
  return make_for(block, last.blocks, LoopKind::BlockX, body);
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
  turns->alternate = f->loop.persistence.alternates;
  const For* ring = find_ring(f->body);
  const int64_t *depth = ring ? as_int(ring->extent) : nullptr, *n = as_int(f->extent);
  const bool streams = f->loop.persistence.streams;
  std::optional<SharedRound> shared;
  if (depth && streams && n) {
    const LastRound last = last_round(*n, blocks, *depth);
    if (last.shares()) shared = shared_round(*n, blocks, last);
  } else if (depth && streams) {
    shared = shared_round_of_sizes(f->extent, blocks, *depth);
  }
  return shared ? by_shared_turns(*f, blocks, *ring, *shared, turns) : by_turns(*f, blocks, turns);
}

}  // namespace heddle::gpu
