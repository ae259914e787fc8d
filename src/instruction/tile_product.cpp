#include "instruction/tile_product.h"

#include <algorithm>
#include <utility>

#include "heddle/instruction/instruction.h"
#include "heddle/instruction/tiles.h"
#include "instruction/unify.h"
#include "ir/affine_lanes.h"

namespace heddle::instructions {
namespace {

// The loops from `s` inwards, each the only statement of the loop around it, and the innermost
// body.
Stmt innermost(const Stmt& s, std::vector<const For*>* loops) {
  Stmt at = s;
  while (const For* f = at.as<For>()) {
    loops->push_back(f);
    at = f->body;
  }
  return at;
}

// The change of `e` with each step of `v`, where it is constant.
std::optional<int64_t> step_of(const Expr& e, const Var& v) {
  if (!uses_var(e, v)) return 0;
  const Expr difference = simplify(substitute(e, {{v, v.expr() + Expr(1)}}) - e);
  const int64_t* step = as_int(difference);
  return step ? std::optional(*step) : std::nullopt;
}

Expr at_zero(Expr e, const std::vector<const For*>& loops) {
  std::vector<VarBinding> zeros;
  for (const For* f : loops) zeros.push_back({f->var, Expr(0)});
  return simplify(substitute(e, zeros));
}

// The places that a store of a sum of products writes and reads: of the sum, and of both factors in
// the order in which they are written.
std::vector<Place> places_of(const Store& s) {
  std::vector<Place> out{{s.buffer, s.indices}};
  visit(s.value, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    if (load && !(load->buffer == s.buffer)) out.push_back({load->buffer, load->indices});
  });
  return out;
}

class Matcher {
 public:
  Matcher(const For& marked, TileProduct* out, std::string* why)
      : marked_(marked), p_(*out), why_(*why) {}

  bool run() {
    std::vector<const For*> loops;
    const Stmt body = innermost(Stmt(&marked_), &loops);
    const Store* store = body.as<Store>();
    if (!store) return fail("there is more than one statement inside of its loops");
    const Stmt tile = take_tile(*store, &loops);
    if (!tile || !unify_tile(*tile.as<Store>()) || !sort_loops(loops)) return false;
    const int held = p_.row_tiles.count() * p_.col_tiles.count();
    if (std::min(p_.row_tiles.count(), p_.col_tiles.count()) + 1 > TileProduct::kRegisters - held)
      return fail("its tiles do not fit the registers");
    return true;
  }

 private:
  bool fail(const std::string& why) {
    why_ = why;
    return false;
  }

  // Takes the loops of a tile off the end of `loops`: of those of columns, of rows and of the depth
  // (in groups, and within them) one each, in any order. Returns the store with one loop of the depth.
  Stmt take_tile(const Store& store, std::vector<const For*>* loops) {
    const std::vector<Place> places = places_of(store);
    if (places.size() != 3) return fail_tile("it is no sum of products of two elements");
    const auto index_moves = [&](const For* f, size_t of) {
      return uses_var(flat_index(places[of].buffer, places[of].indices), f->var);
    };
    std::array<const For*, 2> lines{};  // along the first factor, along the second one
    std::vector<const For*> depth;      // innermost first
    while (loops->size() > 1) {
      const For* f = loops->back();
      const bool of_sum = index_moves(f, 0), x = index_moves(f, 1), y = index_moves(f, 2);
      const bool known = as_int(f->extent) && f->loop != LoopKind::Parallel;
      if (!known || of_sum == (x && y) || (!x && !y)) break;
      if (of_sum) {
        const size_t which = x ? 0 : 1;
        if (lines[which] || *as_int(f->extent) > amx::kRows) break;
        lines[which] = f;
      } else if (depth.size() == 2 || !continues(*f, depth, places)) {
        break;
      } else {
        depth.push_back(f);
      }
      loops->pop_back();
    }
    for (const For* f : lines) {
      if (f) tile_loops_.push_back({f->var, *as_int(f->extent)});
    }
    for (const For* f : *loops) {
      if (f != &marked_ && f->loop != LoopKind::Serial)
        return fail_tile("loop '" + f->var->name + "' is " + to_string(f->loop));
    }
    if (depth.empty()) return Stmt(&store);
    if (depth.size() == 1) {
      tile_loops_.push_back({depth[0]->var, *as_int(depth[0]->extent)});
      return Stmt(&store);
    }
    const int64_t inner = *as_int(depth[0]->extent);
    const Var k("k");
    tile_loops_.push_back({k, inner * *as_int(depth[1]->extent)});
    return substitute(Stmt(&store), {{depth[0]->var, floormod(k, Expr(inner))},
                                     {depth[1]->var, floordiv(k, Expr(inner))}});
  }

  Stmt fail_tile(const std::string& why) {
    fail(why);
    return {};
  }

  // Whether the loop `f` goes on along the depth where the loops `depth` of a tile end.
  static bool continues(const For& f, const std::vector<const For*>& depth,
                        const std::vector<Place>& places) {
    if (depth.empty()) return true;
    const int64_t inner = *as_int(depth[0]->extent);
    const int64_t most = amx::kGroups * amx::kGroupBytes / places[1].buffer->dtype.bytes();
    return inner * *as_int(f.extent) <= most &&
           std::any_of(places.begin() + 1, places.end(), [&](const Place& p) {
             const Expr index = flat_index(p.buffer, p.indices);
             return step_of(index, depth[0]->var) == 1 && step_of(index, f.var) == inner;
           });
  }

  // Proves that the loops of a tile are the instruction.
  bool unify_tile(const Store& store) {
    for (const Unified& u : unify(amx_instruction(), tile_loops_, store, &why_)) {
      if (take(u)) return true;
    }
    return false;
  }

  bool take(const Unified& u) {
    const NestLoop &m = u.loops[0], &n = u.loops[1], &k = u.loops[2];
    const int64_t group = amx::group(u.operands[1].buffer->dtype);
    // Elements from a row of an operand to the next, `rows` steps of a loop away.
    const auto step = [&](const Place& p, const NestLoop& loop, int64_t rows) {
      if (loop.extent <= rows) return std::optional<int64_t>(0);
      const Expr index = flat_index(p.buffer, p.indices);
      const Expr from = substitute(index, {{loop.var, Expr(0)}}),
                 to = substitute(index, {{loop.var, Expr(rows)}});
      const Expr distance = simplify(to - from);
      const int64_t* found = as_int(distance);
      return found ? std::optional(*found) : std::nullopt;
    };
    const auto c = step(u.operands[0], m, 1), a = step(u.operands[1], m, 1),
               b = step(u.operands[2], k, group);
    if (!c || !a || !b || *b % group != 0) return fail("the distance of its rows varies");
    const LayoutDigits lines{{0, 1, 0}, {1, 1, 0}};
    if (!lies_as(u.operands[0], {m, n}, lines, {m.extent, *c}, &why_) ||
        !lies_as(u.operands[1], {m, k}, lines, {m.extent, *a}, &why_) ||
        !lies_as(u.operands[2], {k, n}, amx::right(0, 1, group), {k.extent, *b / group}, &why_))
      return false;
    const auto operand = [&](size_t o, int64_t distance) {
      const Place first = u.first(o);
      return TileProduct::Operand{first.buffer, flat_index(first.buffer, first.indices), distance};
    };
    p_.c = operand(0, *c);
    p_.a = operand(1, *a);
    p_.b = operand(2, *b);
    p_.rows = m.extent;
    p_.groups = k.extent / group;
    p_.lanes = static_cast<int>(n.extent);
    return true;
  }

  // The loops around a tile are those of the reduction, and inside of them those over tiles.
  bool sort_loops(const std::vector<const For*>& loops) {
    for (const For* f : loops) {
      const auto c = step_of(p_.c.at, f->var), a = step_of(p_.a.at, f->var),
                 b = step_of(p_.b.at, f->var);
      const bool known = c && a && b;
      const bool outside = p_.row_tiles.loops.empty() && p_.col_tiles.loops.empty();
      if (f == &marked_ || (outside && known && *c == 0)) {
        if (uses_var(p_.c.at, f->var)) return fail("the marked loop is none of the reduction");
        p_.reduce.push_back(f);
      } else if (!known || !as_int(f->extent)) {
        return fail("the distance of tiles along '" + f->var->name + "' varies");
      } else if (*c == 0 || (*a != 0) == (*b != 0)) {
        return fail("loop '" + f->var->name + "' goes neither over rows nor over columns");
      } else {
        (*a != 0 ? p_.row_tiles : p_.col_tiles).loops.push_back(f);
      }
    }
    return true;
  }

  const For& marked_;
  TileProduct& p_;
  std::string& why_;
  std::vector<NestLoop> tile_loops_;
};

using StepsOfLoops =
    std::vector<std::pair<int64_t, int64_t>>;  // (step in elements, number of steps)

void add_loop(StepsOfLoops* out, int64_t step, int64_t count) {
  if (count > 1) out->emplace_back(step, count);
}

}  // namespace

bool match_tile_product(const For& loop, TileProduct* product, std::string* why) {
  return Matcher(loop, product, why).run();
}

bool clears_tiles(const Stmt& s, const TileProduct& p) {
  std::vector<const For*> loops;
  const Stmt body = innermost(s, &loops);
  const Store* store = body.as<Store>();
  if (!store || !(store->buffer == p.c.buffer) || store->indices.size() != 1) return false;
  const Broadcast* value = store->value.as<Broadcast>();
  const std::optional<AffineLanes> lanes = as_affine_lanes(store->indices[0]);
  if (!value || !is_const(value->value, 0) || value->dtype.lanes != p.lanes || !lanes ||
      !is_const(lanes->stride, 1))
    return false;
  StepsOfLoops has, wants;
  for (const For* f : loops) {
    const std::optional<int64_t> step = step_of(lanes->base, f->var);
    const int64_t* n = as_int(f->extent);
    if (!step || !n || f->loop == LoopKind::Parallel) return false;
    add_loop(&has, *step, *n);
  }
  add_loop(&wants, p.c.step, p.rows);
  std::vector<const For*> tiles = p.row_tiles.loops;
  tiles.insert(tiles.end(), p.col_tiles.loops.begin(), p.col_tiles.loops.end());
  for (const For* f : tiles) add_loop(&wants, *step_of(p.c.at, f->var), *as_int(f->extent));
  std::sort(has.begin(), has.end());
  std::sort(wants.begin(), wants.end());
  return has == wants && equal(at_zero(lanes->base, loops), at_zero(p.c.at, tiles));
}

}  // namespace heddle::instructions
