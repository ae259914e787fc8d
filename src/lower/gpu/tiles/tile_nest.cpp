#include "lower/gpu/tiles/tile_nest.h"

#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "lower/gpu/tiles/group_nest.h"

namespace heddle::gpu {
namespace {

using TileLoop = NestLoop;

// The loops from `s` inwards, and the store at the bottom.
const Store* open_nest(Stmt s, std::vector<TileLoop>* loops) {
  while (const For* f = s.as<For>()) {
    const int64_t* n = as_int(f->extent);
    if (!n) return nullptr;
    loops->push_back({f->var, *n});
    s = f->body;
  }
  return s ? s.as<Store>() : nullptr;
}

// The same with the conditions on the way.
const Store* open_guarded_nest(Stmt s, std::vector<TileLoop>* loops, std::vector<Expr>* guards) {
  for (;;) {
    if (const Store* st = open_nest(s, loops)) return st;
    while (const For* f = s.as<For>()) s = f->body;
    const If* i = s.as<If>();
    if (!i || i->else_body) return nullptr;
    guards->push_back(i->condition);
    s = i->then_body;
  }
}

const Load* widened(const Expr& e) {
  const Cast* c = e.as<Cast>();
  return c ? c->value.as<Load>() : e.as<Load>();
}

bool uses(const std::vector<Expr>& indices, const Var& v) {
  for (const Expr& i : indices) {
    if (uses_var(i, v)) return true;
  }
  return false;
}

struct Product {
  const Load *c, *a, *b;
  Var m, n, k;
};

std::optional<Product> as_product(const std::vector<TileLoop>& loops, const Store& st) {
  const Binary* add = st.value.as<Binary>();
  if (loops.size() != 3 || !add || add->op != BinaryOp::Add) return {};
  const Expr self = make_load(st.buffer, st.indices);
  const Expr& term = equal(add->a, self) ? add->b : add->a;
  if (!equal(add->a, self) && !equal(add->b, self)) return {};
  const Binary* mul = term.as<Binary>();
  if (!mul || mul->op != BinaryOp::Mul) return {};
  const Load *x = widened(mul->a), *y = widened(mul->b);
  if (!x || !y) return {};
  const int64_t depth = 8 * operands_per_register(x->dtype);
  Product p{(equal(add->a, self) ? add->a : add->b).as<Load>(), x, y, {}, {}, {}};
  for (const TileLoop& l : loops) {
    const bool in_c = uses(st.indices, l.var), in_x = uses(x->indices, l.var),
               in_y = uses(y->indices, l.var);
    if (in_x && in_y && !in_c && l.extent == depth) p.k = l.var;
    if (in_c && l.extent == 16 && in_x != in_y) {
      p.m = l.var;
      if (in_y) std::swap(p.a, p.b);
    }
    if (in_c && l.extent == 8) p.n = l.var;
  }
  if (!p.m.get() || !p.n.get() || !p.k.get()) return {};
  return p;
}

std::vector<Expr> at(const std::vector<Expr>& indices, const std::vector<VarBinding>& bind) {
  std::vector<Expr> out;
  for (const Expr& i : indices) out.push_back(simplify(substitute(i, bind)));
  return out;
}

std::vector<VarBinding> zero(const std::vector<TileLoop>& loops) {
  std::vector<VarBinding> bind;
  for (const TileLoop& l : loops) bind.push_back({l.var, Expr(0)});
  return bind;
}

// Whether B's tile of columns 8 to 15 follows that of columns 0 to 7 directly.
bool second_follows(const std::vector<Expr>& indices, const Var& k, const Var& n) {
  const size_t tile = lane_dim(Fragment::B, indices.size()) - 1;
  const std::vector<Expr> first = at(indices, {{k, Expr(0)}, {n, Expr(0)}}),
                          second = at(indices, {{k, Expr(0)}, {n, Expr(8)}});
  for (size_t d = 0; d < indices.size(); ++d) {
    if (!equal(second[d], d == tile ? simplify(first[d] + Expr(1)) : first[d])) return false;
  }
  return true;
}

}  // namespace

// The indices are compared at points that each change one digit.
bool laid_out(const std::vector<Expr>& indices, const Var& x, const Var& y, Fragment f, int p) {
  const size_t rank = indices.size();
  if (rank < (f == Fragment::A ? 7u : f == Fragment::Row ? 3u : 6u)) return false;
  const size_t lane = lane_dim(f, rank);
  const std::vector<Expr> base = at(indices, {{x, Expr(0)}, {y, Expr(0)}});
  // The points are within the tile, which is 16 x 8 or 8 x 8 where a register holds one element.
  const int rows = f == Fragment::B ? 8 * p : 16, cols = f == Fragment::A ? 8 * p : 8;
  for (auto [i, j] : {std::pair{1, 0},
                      {rows / 2 + 1, 0},
                      {0, 1},
                      {0, cols - 2},
                      {7, 3},
                      {rows - 6, 5},
                      {rows - 1, cols - 1}}) {
    const std::vector<Expr> there = at(indices, {{x, Expr(i)}, {y, Expr(j)}});
    std::vector<int> want;
    switch (f) {
      case Fragment::C: want = {i % 8, j / 2 % 4, i / 8, j % 2}; break;
      case Fragment::A: want = {i % 8, j / p % 4, j / (4 * p), i / 8, j % p}; break;
      case Fragment::B: want = {j % 8, i / p % 4, i / (4 * p), i % p}; break;
      case Fragment::Row: want = {i % 8, i / 8}; break;
    }
    for (size_t d = 0; d < rank; ++d) {
      const Expr expected = d < lane ? base[d] : simplify(base[d] + Expr(want[d - lane]));
      if (!equal(there[d], expected)) return false;
    }
  }
  return true;
}

int operands_per_register(DataType t) {
  if (t == f32) return 1;  // tf32
  if (t == f16 || t == bf16) return 2;
  return t == i8 || t == u8 || t.is_float8() ? 4 : 0;
}

size_t lane_dim(Fragment f, size_t rank) {
  const size_t last = f == Fragment::A ? 5 : f == Fragment::Row ? 2 : 4;
  HEDDLE_ICHECK(rank >= last, "a fragment's storage has too few dimensions");
  return rank - last;
}

Fragments find_fragments(const Stmt& s) {
  Fragments out;
  visit(
      s,
      [&](const Stmt& x) {
        const For* f = x.as<For>();
        if (!f || f->loop != LoopKind::Tensorized) return;
        std::vector<TileLoop> loops;
        const Store* st = open_nest(x, &loops);
        std::optional<Product> p = st ? as_product(loops, *st) : std::nullopt;
        if (!p) {
          const auto group = st ? try_group_product(loops, *st) : std::nullopt;
          if (group) out[group->c.buffer.get()] = Fragment::C;
          if (group && group->a.buffer->scope == Scope::Local)
            out[group->a.buffer.get()] = Fragment::A;
          return;
        }
        out[p->c->buffer.get()] = Fragment::C;
        out[p->a->buffer.get()] = Fragment::A;
        out[p->b->buffer.get()] = Fragment::B;
      },
      [](const Expr&) {});
  return out;
}

namespace {

// The parts of parse_tile_nest. Each returns nothing for loops that do not form such a tile.
TileNest::Place first_element(const Buffer& b, const std::vector<Expr>& indices,
                              const std::vector<TileLoop>& loops) {
  return {b, at(indices, zero(loops))};
}

std::optional<TileNest> product_nest(const Product& p, const std::vector<TileLoop>& loops) {
  TileNest t;
  t.kind = TileNest::Kind::Product;
  t.pack = operands_per_register(p.a->dtype);
  if (!laid_out(p.c->indices, p.m, p.n, Fragment::C, 2) ||
      !laid_out(p.a->indices, p.m, p.k, Fragment::A, t.pack) ||
      !laid_out(p.b->indices, p.k, p.n, Fragment::B, t.pack))
    return {};
  t.c = first_element(p.c->buffer, p.c->indices, loops);
  t.a = first_element(p.a->buffer, p.a->indices, loops);
  t.b = first_element(p.b->buffer, p.b->indices, loops);
  return t;
}

std::optional<TileNest> fill_or_load_nest(const Store& st, Fragment role,
                                          const std::vector<TileLoop>& loops) {
  if (loops.size() != 2) return {};
  TileNest t;
  t.row = loops[0].var;
  t.col = loops[1].var;
  t.columns = loops[1].extent;
  const bool b = role == Fragment::B, pair = b && t.columns == 16;
  t.pack = role == Fragment::C ? 2 : operands_per_register(st.buffer->dtype);
  if (loops[0].extent != (b ? 8 * t.pack : 16)) return {};
  const bool tiles = role == Fragment::C && t.columns % 8 == 0;
  if (t.columns != (role == Fragment::A ? 8 * t.pack : 8) && !pair && !tiles) return {};
  if (!laid_out(st.indices, t.row, t.col, role, t.pack)) return {};
  if (pair && !second_follows(st.indices, t.row, t.col)) return {};
  t.value = st.value;
  if (role == Fragment::C) {
    if (uses_var(t.value, t.row) || uses_var(t.value, t.col)) return {};
    if (!column_tiles_follow(st.indices, t.row, t.col, t.columns)) return {};
    t.kind = TileNest::Kind::Fill;
    t.c = first_element(st.buffer, st.indices, loops);
    return t;
  }
  const Load* load = t.value.as<Load>();
  if (!load || load->buffer->scope != Scope::Shared) return {};
  t.kind = TileNest::Kind::Load;
  t.loaded = role;
  t.a = first_element(st.buffer, st.indices, loops);
  return t;
}

// A box of which only the first elements of each line are wanted. TMA writes the others too: they
// belong to the tile, and nothing reads them.
std::optional<TileNest> guarded_box(const For& row) {
  const For* line = row.body.as<For>();
  const If* guard = line ? line->body.as<If>() : nullptr;
  const int64_t *rows = as_int(row.extent), *length = line ? as_int(line->extent) : nullptr;
  if (!guard || guard->else_body || !rows || !length) return {};
  const Binary* end = guard->condition.as<Binary>();
  const Store* st = guard->then_body ? guard->then_body.as<Store>() : nullptr;
  if (!st || !end || end->op != BinaryOp::Lt || !uses_var(end->a, line->var) ||
      uses_var(guard->condition, row.var))
    return {};
  return try_bulk_load({{row.var, *rows}, {line->var, *length}}, *st);
}

}  // namespace

std::optional<TileNest> try_parse_tile_nest(const For& loop, const Fragments& fragments) {
  const int64_t* extent = as_int(loop.extent);
  if (!extent) return {};
  std::vector<TileLoop> loops{{loop.var, *extent}};
  std::vector<Expr> guards;
  const Store* st = open_guarded_nest(loop.body, &loops, &guards);
  if (!st) return {};
  if (std::optional<TileNest> box = try_bulk_store(loops, *st, guards)) return box;
  if (!guards.empty()) return guarded_box(loop);
  if (std::optional<TileNest> group = try_group_product(loops, *st)) return group;
  if (std::optional<Product> p = as_product(loops, *st)) return product_nest(*p, loops);
  if (std::optional<TileNest> box = try_bulk_load(loops, *st)) return box;
  auto role = fragments.find(st->buffer.get());
  if (role == fragments.end()) return {};
  return fill_or_load_nest(*st, role->second, loops);
}

void fail_unmatched(const For& loop, const std::string& why) {
  const Stmt nest = make_for(loop.var, loop.extent, loop.loop, loop.body);
  bool sized = false;
  visit(nest, [](const Stmt&) {}, [&](const Expr& e) { sized |= !sizes_in(e).empty(); });
  if (sized)
    throw_user_error("the schedule does not hold for all sizes: " + why, {},
                     "choose it at another size");
  throw_internal_error(why + "\n" + to_string(nest));
}

TileNest parse_tile_nest(const For& loop, const Fragments& fragments) {
  std::optional<TileNest> t = try_parse_tile_nest(loop, fragments);
  if (!t) fail_unmatched(loop, "the loops marked as tensorized are no tile of a matrix unit");
  return std::move(*t);
}

}  // namespace heddle::gpu
