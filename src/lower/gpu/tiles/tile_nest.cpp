#include "lower/gpu/tiles/tile_nest.h"

#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "lower/gpu/tiles/group_nest.h"

namespace heddle::gpu {
namespace {

using namespace instructions;

// The loops from `s` inwards, and the store at the bottom. `guards`: the conditions on the way; null
// where there may be none.
const Store* open_nest(Stmt s, std::vector<NestLoop>* loops, std::vector<Expr>* guards) {
  while (s) {
    if (const Store* st = s.as<Store>()) return st;
    if (const For* f = s.as<For>()) {
      const int64_t* n = as_int(f->extent);
      if (!n) return nullptr;
      loops->push_back({f->var, *n});
      s = f->body;
      continue;
    }
    const If* i = guards ? s.as<If>() : nullptr;
    if (!i || i->else_body) return nullptr;
    guards->push_back(i->condition);
    s = i->then_body;
  }
  return nullptr;
}

std::optional<TileNest> try_product(const std::vector<NestLoop>& loops, const Store& st,
                                    std::string* why) {
  for (const Unified& u : unify(mma_instruction(), loops, st, why)) {
    TileNest t;
    t.kind = TileNest::Kind::Product;
    t.pack = mma::elements_per_register(u.form->types[1]);
    if (!has_layout(u.operands[0], u.loops, mma::accumulator(0, 1), why) ||
        !has_layout(u.operands[1], u.loops, mma::left(0, 2, t.pack), why) ||
        !has_layout(u.operands[2], u.loops, mma::right(2, 1, t.pack), why))
      continue;
    t.c = u.first(0);
    t.a = u.first(1);
    t.b = u.first(2);
    return t;
  }
  return {};
}

// Fills the sums, or loads an operand from shared memory.
std::optional<TileNest> try_fill_or_load(const std::vector<NestLoop>& loops, const Store& st,
                                         const Fragments& fragments, std::string* why) {
  const auto role = fragments.find(st.buffer.get());
  if (loops.size() != 2 || role == fragments.end() || role->second == Fragment::Row) {
    *why = "'" + st.buffer->name + "' is no operand of a product";
    return {};
  }
  const Fragment f = role->second;
  TileNest t;
  t.row = loops[0].var;
  t.col = loops[1].var;
  t.columns = loops[1].extent;
  t.pack = f == Fragment::C ? 2 : mma::elements_per_register(st.buffer->dtype);
  const int64_t depth = mma::depth(t.pack);
  const bool whole = loops[0].extent == (f == Fragment::B ? depth : mma::kRows) &&
                     (f == Fragment::A   ? t.columns == depth
                      : f == Fragment::B ? t.columns == mma::kCols || t.columns == 2 * mma::kCols
                                         : t.columns % mma::kCols == 0);
  if (!whole) {
    *why = "it has " + std::to_string(loops[0].extent) + " x " + std::to_string(t.columns) +
           " elements, which are no whole tiles of a fragment";
    return {};
  }
  const LayoutDigits layout = f == Fragment::C   ? mma::accumulator(0, 1)
                              : f == Fragment::A ? mma::left(0, 1, t.pack)
                                                 : mma::right(0, 1, t.pack);
  const Place place{st.buffer, st.indices};
  if (!has_layout(place, loops, layout, why)) return {};
  t.value = st.value;
  const Place first{st.buffer, at(st.indices, loops, {0, 0})};
  if (f == Fragment::C) {
    *why = "not all sums become the same value";
    if (uses_var(t.value, t.row) || uses_var(t.value, t.col)) return {};
    t.kind = TileNest::Kind::Fill;
    t.c = first;
    return t;
  }
  const Load* load = t.value.as<Load>();
  *why = "it does not copy from shared memory";
  if (!load || load->buffer->scope != Scope::Shared) return {};
  t.kind = TileNest::Kind::Load;
  t.loaded = f;
  t.a = first;
  return t;
}

// A box of which only the first elements of each line are wanted. TMA writes the others too: they
// belong to the tile, and nothing reads them.
std::optional<TileNest> try_guarded_box(const std::vector<NestLoop>& loops, const Store& st,
                                        const std::vector<Expr>& guards, std::string* why) {
  const Binary* end = guards.size() == 1 ? guards[0].as<Binary>() : nullptr;
  if (loops.size() == 2 && end && end->op == BinaryOp::Lt && uses_var(end->a, loops[1].var) &&
      !uses_var(guards[0], loops[0].var))
    return try_bulk_load(loops, st, why);
  *why = "there is another condition than one on the end of lines";
  return {};
}

}  // namespace

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
        std::vector<NestLoop> loops;
        const Store* st = open_nest(x, &loops, nullptr);
        if (!st) return;
        std::string why;
        if (const auto p = try_product(loops, *st, &why)) {
          out[p->c.buffer.get()] = Fragment::C;
          out[p->a.buffer.get()] = Fragment::A;
          out[p->b.buffer.get()] = Fragment::B;
        } else if (const auto group = try_group_product(loops, *st, &why)) {
          out[group->c.buffer.get()] = Fragment::C;
          if (group->a.buffer->scope == Scope::Local) out[group->a.buffer.get()] = Fragment::A;
        }
      },
      [](const Expr&) {});
  return out;
}

std::optional<TileNest> try_parse_tile_nest(const For& loop, const Fragments& fragments,
                                            std::string* why) {
  const int64_t* extent = as_int(loop.extent);
  std::vector<NestLoop> loops;
  std::vector<Expr> guards;
  const Store* st = nullptr;
  if (extent) {
    loops.push_back({loop.var, *extent});
    st = open_nest(loop.body, &loops, &guards);
  }
  if (!st) {
    *why = "\n  the loops do not end in one store, or have no constant extents";
    return {};
  }
  std::optional<TileNest> found;
  const auto as = [&](const char* what, const auto& attempt) {
    std::string reason;
    if (found) return;
    found = attempt(&reason);
    if (!found) *why += std::string("\n  as ") + what + ": " + reason;
  };
  as("a store by TMA", [&](std::string* w) { return try_bulk_store(loops, *st, guards, w); });
  if (guards.empty()) {
    as("wgmma", [&](std::string* w) { return try_group_product(loops, *st, w); });
    as("mma", [&](std::string* w) { return try_product(loops, *st, w); });
    as("a load by TMA", [&](std::string* w) { return try_bulk_load(loops, *st, w); });
    as("a fill or a load of fragments",
       [&](std::string* w) { return try_fill_or_load(loops, *st, fragments, w); });
  } else {
    as("a load by TMA", [&](std::string* w) { return try_guarded_box(loops, *st, guards, w); });
  }
  return found;
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
  std::string why;
  std::optional<TileNest> t = try_parse_tile_nest(loop, fragments, &why);
  if (!t)
    fail_unmatched(loop, "the loops marked as tensorized are no tile of a matrix unit:" + why);
  return std::move(*t);
}

}  // namespace heddle::gpu
