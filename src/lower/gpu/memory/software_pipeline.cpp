// Multi-stage software pipelining, as CUTLASS's sm80 main loop does it: with N copies of the tiles
// in shared memory, N - 1 iterations' loads are in flight while one iteration computes, and one
// barrier an iteration orders both the arrival of its tile and the reuse of the one before.
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "heddle/ir/simplify.h"
#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/warp_group/tile_ring.h"

namespace heddle::gpu {
namespace {

// The rings that were made, each with its tile. A loop that was cut has its tiles in each part, and
// the parts run one after the other: they share a ring.
class Rings {
 public:
  // Whether an earlier loop has the tiles of `p` too. Then `p` gets its rings.
  bool share(FillAndUse& p) {
    bool known = false;
    for (size_t i = 0; i < p.rings.size(); ++i) {
      const auto r = std::find_if(made_.begin(), made_.end(),
                                  [&](const auto& x) { return x.first == p.t.tiles[i]; });
      if (r == made_.end()) {
        made_.emplace_back(p.t.tiles[i], p.rings[i]);
      } else {
        p.rings[i] = r->second;
        known = true;
      }
    }
    return known;
  }
  bool has(const Buffer& ring) const {
    return std::any_of(made_.begin(), made_.end(), [&](const auto& x) { return x.second == ring; });
  }

 private:
  std::vector<std::pair<Buffer, Buffer>> made_;
};

// The fill of iteration `k`, if there is one.
Stmt filled(const For& loop, const FillAndUse& p, const Expr& k) {
  const bool shared = p.t.tiles[0]->scope == Scope::Shared;
  Stmt s = substitute(p.fill, {{loop.var, k}});
  s = in_slot(s, p, slot(p.t, k), shared);
  return make_if(k < loop.extent, s);
}

Stmt allocated(const FillAndUse& p, Stmt s) {
  for (const Buffer& b : p.rings) s = make_allocate(b, s, p.t.copies);
  return s;
}

Stmt allocated(const std::vector<Buffer>& buffers, Stmt s) {
  for (const Buffer& b : buffers) s = make_allocate(b, s);
  return s;
}

// Registers belong to one thread, so nothing has to be waited for.
Stmt pipelined_registers(const For& loop, const FillAndUse& p) {
  const int ahead = p.t.copies - 1;
  std::vector<Stmt> out;
  for (int i = 0; i < ahead; ++i) out.push_back(filled(loop, p, Expr(int64_t{i})));
  const Expr k = loop.var.expr();
  const Stmt round = make_block(
      {filled(loop, p, k + Expr(int64_t{ahead})), in_slot(p.use, p, slot(p.t, k), false)});
  out.push_back(make_for(loop.var, loop.extent, loop.loop, allocated(p.others, round)));
  return allocated(p, make_block(std::move(out)));
}

// The first `ahead` fills of shared tiles.
std::vector<Stmt> first_fills(const For& loop, const FillAndUse& p, bool repeated) {
  std::vector<Stmt> out;
  // Tiles of the previous round, or of the previous part of the loop, may still be in use.
  if (repeated) out.push_back(make_sync(SyncKind::Block));
  for (int i = 0; i < p.t.copies - 1; ++i) {
    out.push_back(filled(loop, p, Expr(int64_t{i})));
    out.push_back(make_sync(SyncKind::AsyncCommit));
  }
  return out;
}

Stmt pipelined_tiles(const For& loop, const FillAndUse& p, bool repeated) {
  const int ahead = p.t.copies - 1;
  std::vector<Stmt> out = first_fills(loop, p, repeated);
  const Expr k = loop.var.expr();
  const Stmt round =
      make_block({make_sync(SyncKind::AsyncWait, ahead - 1), make_sync(SyncKind::Block),
                  filled(loop, p, k + Expr(int64_t{ahead})), make_sync(SyncKind::AsyncCommit),
                  in_slot(p.use, p, slot(p.t, k), false)});
  out.push_back(make_for(loop.var, loop.extent, loop.loop, allocated(p.others, round)));
  return allocated(p, make_block(std::move(out)));
}

// The loop over steps of a tile that loads registers ahead, under loops over threads only.
struct Steps {
  std::vector<const For*> threads;
  const For* loop = nullptr;
  FillAndUse p;

  Stmt all_threads(Stmt s) const {
    for (size_t i = threads.size(); i-- > 0;)
      s = make_for(threads[i]->var, threads[i]->extent, threads[i]->loop, s);
    return s;
  }
};

std::optional<Steps> steps_of(const Stmt& use) {
  Steps r;
  const For* f = use.as<For>();
  for (; f && is_thread(f->loop); f = f->body.as<For>()) r.threads.push_back(f);
  const int64_t* n = f ? as_int(f->extent) : nullptr;
  std::optional<FillAndUse> p = n ? fill_and_use(*f, Scope::Local) : std::nullopt;
  // The registers of the next tile's first step must be free, at an index that is known here. That
  // needs two copies and an even number of steps.
  if (!p || p->t.copies != 2 || *n % 2 != 0) return {};
  r.loop = f;
  r.p = std::move(*p);
  return r;
}

// Tiles in shared memory whose registers are loaded one step ahead, including the first step of the
// next tile. If that one were loaded after the barrier, all warps would wait for their loads at
// once while the tensor cores idle (H200, bf16 4096^3: 316 against 432 TFLOP/s).
//
//   fill ahead; wait; load step 0
//   for k { fill k + ahead;
//           for all steps but the last { load the next step; use }
//           wait for tile k + 1; load its step 0; use the last step }
Stmt pipelined_across(const For& loop, const FillAndUse& tiles, const Steps& steps, bool repeated) {
  const int ahead = tiles.t.copies - 1;
  const Expr k = loop.var.expr(), step = steps.loop->var.expr();
  const Expr last = steps.loop->extent - Expr(int64_t{1});
  const FillAndUse& p = steps.p;
  auto load = [&](const Expr& of_tile, const Expr& of_step) {
    Stmt s = substitute(p.fill, {{loop.var, of_tile}, {steps.loop->var, of_step}});
    s = in_slot(s, p, slot(p.t, of_step), false);
    return in_slot(s, tiles, slot(tiles.t, of_tile), false);
  };
  auto use = [&](const Expr& of_step) {
    Stmt s = substitute(p.use, {{steps.loop->var, of_step}});
    s = in_slot(s, p, slot(p.t, of_step), false);
    return allocated(p.others, in_slot(s, tiles, slot(tiles.t, k), false));
  };
  const Stmt wait =
      make_block({make_sync(SyncKind::AsyncWait, ahead - 1), make_sync(SyncKind::Block)});
  std::vector<Stmt> out = first_fills(loop, tiles, repeated);
  out.push_back(wait);
  const Expr none(int64_t{0}), one(int64_t{1});
  out.push_back(steps.all_threads(load(none, none)));
  // After the last tile, its own first step is loaded once more, so that no branch separates the
  // loads from the products that they overlap with.
  const Expr next = min(k + one, loop.extent - one);
  const Stmt round =
      make_block({filled(loop, tiles, k + Expr(int64_t{ahead})), make_sync(SyncKind::AsyncCommit),
                  steps.all_threads(make_for(steps.loop->var, last, steps.loop->loop,
                                             make_block({load(k, step + one), use(step)}))),
                  wait, steps.all_threads(make_block({load(next, none), use(last)}))});
  out.push_back(make_for(loop.var, loop.extent, loop.loop, allocated(tiles.others, round)));
  return allocated(tiles, allocated(p, make_block(std::move(out))));
}

// Inner loops are handled first, except where registers are loaded ahead across tiles: there the
// loads of the inner loops are part of what the outer loop computes.
Stmt run(const Stmt& s, bool repeated, Rings& rings) {
  if (!s) return s;
  const For* f = s.as<For>();
  const bool serial = f && !is_block(f->loop) && !is_thread(f->loop);
  if (serial) {
    if (auto tiles = fill_and_use(*f, Scope::Shared)) {
      if (auto steps = steps_of(tiles->use)) {
        const bool shared = rings.share(*tiles);
        rings.share(steps->p);
        return pipelined_across(*f, *tiles, *steps, repeated || shared);
      }
    }
  }
  const Stmt r = map_children(
      s, [&](const Stmt& c) { return run(c, repeated || serial, rings); },
      [](const Expr& e) { return e; });
  const For* loop = serial && r ? r.as<For>() : nullptr;
  if (!loop) return r;
  if (auto p = fill_and_use(*loop, Scope::Shared)) {
    const bool shared = rings.share(*p);
    return pipelined_tiles(*loop, *p, repeated || shared);
  }
  if (auto p = fill_and_use(*loop, Scope::Local)) {
    rings.share(*p);
    return pipelined_registers(*loop, *p);
  }
  return r;
}

// Buffers that nothing overlaps with keep one copy and are synchronised like other memory.
Stmt drop_copies(const Stmt& s, const Rings& rings) {
  const Stmt r = map_children(
      s, [&](const Stmt& c) { return drop_copies(c, rings); }, [](const Expr& e) { return e; });
  const Allocate* a = r ? r.as<Allocate>() : nullptr;
  if (!a || a->copies == 1 || rings.has(a->buffer)) return r;
  return make_allocate(a->buffer, a->body);
}

}  // namespace

Stmt software_pipeline(const Stmt& s) {
  Rings rings;
  const Stmt r = run(s, false, rings);
  return drop_copies(r, rings);
}

}  // namespace heddle::gpu
