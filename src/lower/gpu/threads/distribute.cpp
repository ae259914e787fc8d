#include <optional>

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/threads/buffer_places.h"
#include "lower/gpu/threads/buffer_uses.h"
#include "lower/gpu/threads/row_nest.h"
#include "lower/gpu/threads/thread_digits.h"
#include "lower/gpu/threads/thread_loops.h"
#include "lower/gpu/threads/thread_reduction.h"
#include "lower/gpu/tiles/fragment_load.h"
#include "lower/gpu/tiles/group_nest.h"
#include "lower/gpu/tiles/tile_nest.h"

namespace heddle::gpu {
namespace {

// Rewrites the program to use the buffers that were decided on.
class Rewriter {
 public:
  Rewriter(const LaunchShape& shape, const TileNests& nests, const ThreadLoops& loops,
           const Decisions& decisions)
      : shape_(shape), nests_(nests), loops_(loops), decisions_(decisions) {}

  Stmt rewrite(const Stmt& s) {
    if (!s) return s;
    if (const For* f = s.as<For>()) {
      if (is_tensorized(f->loop)) return tile_op(*f);
      if (loops_.reductions.count(f)) return reduction(*f);
      if (f->loop == LoopKind::ThreadY) warp_ = f->var;
    }
    if (const Allocate* a = s.as<Allocate>()) {
      const Decision* d = decision(a->buffer);
      return make_allocate(d ? d->buffer : a->buffer, rewrite(a->body), a->copies);
    }
    if (const Store* st = s.as<Store>()) {
      if (const Decision* d = decision(st->buffer))
        return make_store(d->buffer, place(*d, st->indices), rewrite(st->value), st->hint);
    }
    return map_children(
        s, [&](const Stmt& c) { return rewrite(c); }, [&](const Expr& e) { return rewrite(e); });
  }

 private:
  const Decision* decision(const Buffer& b) const {
    const auto it = decisions_.find(b.get());
    return it == decisions_.end() ? nullptr : &it->second;
  }

  std::vector<Expr> place(const Decision& d, const std::vector<Expr>& indices) const {
    std::vector<Expr> out;
    for (const OpenLoop& l : d.around) out.push_back(l.var.expr());
    for (size_t i = 0; i < indices.size(); ++i) {
      if (!d.is_lane(i)) out.push_back(without_digits(rewrite(indices[i]), d.digits.dims[i]));
    }
    return out;
  }

  Expr rewrite(const Expr& e) const {
    RewriteMemo memo;
    return rewrite(e, memo);
  }
  Expr rewrite(const Expr& e, RewriteMemo& memo) const {
    return memo(e, [&](const Expr& x) { return rewrite_node(x, memo); });
  }
  Expr rewrite_node(const Expr& e, RewriteMemo& memo) const {
    if (const Load* load = e.as<Load>()) {
      if (const Decision* d = decision(load->buffer))
        return make_load(d->buffer, place(*d, load->indices));
    }
    return map_children(e, [&](const Expr& c) { return rewrite(c, memo); });
  }

  Stmt reduction(const For& f) const {
    ThreadReduction r = *as_thread_reduction(f);
    if (r.condition.defined()) r.condition = rewrite(r.condition);
    for (auto& c : r.components) {
      const Expr there = rewrite(make_load(c.to, c.at));
      c.to = there.as<Load>()->buffer;
      c.at = there.as<Load>()->indices;
      c.part = rewrite(c.part);
    }
    return emit_thread_reduction(r, *as_int(f.extent), shape_.block[0],
                                 shape_.cluster > 1 && loops_.run_once.count(&f));
  }

  TileOperand operand(const TileNest::Place& p) const {
    const Decision& d = decisions_.at(p.buffer.get());
    return {d.buffer, flat_index(d.buffer, place(d, p.indices))};
  }

  // An operation that all lanes of the warp execute together.
  Stmt tile_op(const For& f) const {
    const TileNest& t = nests_.at(&f);
    Var lane("lane");
    auto warp = [&](const Stmt& s) { return make_for(lane, Expr(kWarp), LoopKind::ThreadX, s); };
    switch (t.kind) {
      case TileNest::Kind::Product:
        return warp(
            make_tile_op(tile::Mma{mma::kRows, mma::kCols, static_cast<int>(mma::depth(t.pack))},
                         {operand(t.c), operand(t.a), operand(t.b)}));
      case TileNest::Kind::Fill: return warp(fill(t));
      case TileNest::Kind::GroupProduct:
        return warp(make_tile_op(tile::GroupMma{wgmma::kRows, static_cast<int>(t.columns),
                                                static_cast<int>(wgmma::depth(t.a.buffer->dtype)),
                                                t.a_across, t.b_across, false},
                                 {operand(t.c), left_operand(t), box(t.b)}));
      case TileNest::Kind::BulkLoad: return bulk_load(t);
      case TileNest::Kind::BulkStore: return bulk_store(t);
      case TileNest::Kind::Load: {
        const Decision& d = decisions_.at(t.a.buffer.get());
        return warp(load_fragment(
            t, rewrite(t.value),
            {d.buffer, place(d, t.a.indices), static_cast<size_t>(d.lane_dim) - 1}, lane.expr()));
      }
    }
    return {};
  }

  // Fills the four elements of an accumulator that a lane holds, for each tile of 8 columns.
  Stmt fill(const TileNest& t) const {
    const Decision& d = decisions_.at(t.c.buffer.get());
    std::vector<Expr> at = place(d, t.c.indices);
    const Var tile("tile");
    const bool many = t.columns > 8;
    if (many)
      at[static_cast<size_t>(d.lane_dim) - 1] = at[static_cast<size_t>(d.lane_dim) - 1] + tile;
    std::vector<Stmt> out;
    for (int64_t i : {0, 1}) {
      for (int64_t j : {0, 1}) {
        at[at.size() - 2] = Expr(i);
        at[at.size() - 1] = Expr(j);
        out.push_back(make_store(d.buffer, at, t.value));
      }
    }
    const Stmt each = make_block(std::move(out));
    return many ? make_for(tile, Expr(t.columns / 8), LoopKind::Unrolled, each) : each;
  }

  static tile::Box box_of(const TileNest& t) {
    return {static_cast<int>(t.columns), static_cast<int>(tma::row_elements(t.a.buffer->dtype)),
            t.row_dim};
  }

  static TileOperand box(const TileNest::Place& p) {
    return {p.buffer, flat_index(p.buffer, p.indices)};
  }

  TileOperand left_operand(const TileNest& t) const {
    return t.a.buffer->scope == Scope::Local ? operand(t.a) : of_group(t.a, t.a_across);
  }

  TileOperand operand_in_shared(const TileNest::Place& p) const {
    return decision(p.buffer) ? operand(p) : box(p);
  }

  // The operand of a whole warp group. It begins at the tile that its first warp multiplies.
  TileOperand of_group(const TileNest::Place& p, bool across) const {
    const TileOperand x = box(p);
    const auto of_warp = [&](int64_t w) {
      return warp_ ? simplify(substitute(x.index, {{*warp_, Expr(w)}})) : x.index;
    };
    const Expr step = simplify(of_warp(1) - of_warp(0));
    HEDDLE_ICHECK(
        is_const(step, across ? wgmma::kRowsOfWarp
                              : wgmma::kRowsOfWarp * tma::row_elements(p.buffer->dtype)),
        "the warps of a group do not multiply neighbouring rows of '" + p.buffer->name + "'");
    return {x.buffer, of_warp(0)};
  }

  // A bulk load takes coordinates in place of the source's flat index. software_pipeline adds the
  // barrier.
  Stmt bulk_load(const TileNest& t) const {
    std::vector<TileOperand> operands{box(t.a)};
    for (const Expr& coordinate : t.b.indices) operands.push_back({t.b.buffer, coordinate});
    for (const Expr& offset : t.offsets) operands.push_back({t.b.buffer, offset});
    return make_tile_op(tile::BulkLoad{box_of(t), false, t.windows}, std::move(operands));
  }

  Stmt bulk_store(const TileNest& t) const {
    std::vector<TileOperand> operands{operand_in_shared(t.a)};
    for (const Expr& coordinate : t.b.indices)
      operands.push_back({t.b.buffer, rewrite(coordinate)});
    return make_tile_op(tile::BulkStore{box_of(t)}, std::move(operands));
  }

  const LaunchShape& shape_;
  const TileNests& nests_;
  const ThreadLoops& loops_;
  const Decisions& decisions_;
  std::optional<Var> warp_;  // the variable of the loop over threadIdx.y around the statement
};

}  // namespace

Stmt distribute(const Stmt& s, const LaunchShape& shape) {
  Fragments fragments = find_fragments(s);
  TileNests nests;
  const Stmt selected = lowering::select_instructions(s, gpu_instructions(&fragments, &nests));
  const ThreadLoops loops = with_legal_thread_loops(selected, shape);
  const BufferUses uses = find_buffer_uses(loops.body, nests, loops.reductions);
  const Decisions decisions = decide(uses, fragments, shape);
  return Rewriter(shape, nests, loops, decisions).rewrite(loops.body);
}

}  // namespace heddle::gpu
