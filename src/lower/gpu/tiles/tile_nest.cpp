#include "lower/gpu/tiles/tile_nest.h"

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
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

// Whether the nest is one over whole tiles of its fragment, laid out as one.
bool is_of_fragment(const TileNest& t, Fragment f, const std::vector<NestLoop>& loops,
                    const Store& st, std::string* why) {
  const int64_t rows = loops[0].extent, depth = mma::depth(t.pack);
  const bool whole = rows == (f == Fragment::B ? depth : mma::kRows) &&
                     (f == Fragment::A   ? t.columns == depth
                      : f == Fragment::B ? t.columns == mma::kCols || t.columns == 2 * mma::kCols
                                         : t.columns % mma::kCols == 0);
  if (!whole) {
    *why = "it has " + std::to_string(rows) + " x " + std::to_string(t.columns) +
           " elements, which are no whole tiles of a fragment";
    return false;
  }
  const LayoutDigits layout = f == Fragment::C   ? mma::accumulator(0, 1)
                              : f == Fragment::A ? mma::left(0, 1, t.pack)
                                                 : mma::right(0, 1, t.pack);
  return has_layout({st.buffer, st.indices}, loops, layout, why);
}

// The loops of a nest over elements of a fragment whose role is one of `first` and `other`.
std::optional<TileNest> try_fragment(const std::vector<NestLoop>& loops, const Store& st,
                                     const Fragments& fragments, Fragment first, Fragment other,
                                     std::string* why) {
  const auto role = fragments.find(st.buffer.get());
  if (loops.size() != 2 || role == fragments.end() ||
      (role->second != first && role->second != other)) {
    *why = "'" + st.buffer->name + "' is no such operand of a product";
    return {};
  }
  TileNest t;
  t.loaded = role->second;
  t.row = loops[0].var;
  t.col = loops[1].var;
  t.columns = loops[1].extent;
  t.pack = t.loaded == Fragment::C ? 2 : mma::elements_per_register(st.buffer->dtype);
  t.value = st.value;
  if (!is_of_fragment(t, t.loaded, loops, st, why)) return {};
  return t;
}

// Fills the sums that products add to.
std::optional<TileNest> try_fill(const std::vector<NestLoop>& loops, const Store& st,
                                 const Fragments& fragments, std::string* why) {
  auto t = try_fragment(loops, st, fragments, Fragment::C, Fragment::C, why);
  if (!t) return {};
  *why = "not all sums become the same value";
  if (uses_var(t->value, t->row) || uses_var(t->value, t->col)) return {};
  t->kind = TileNest::Kind::Fill;
  t->c = {st.buffer, at(st.indices, loops, {0, 0})};
  return t;
}

// Loads an operand from shared memory.
std::optional<TileNest> try_load(const std::vector<NestLoop>& loops, const Store& st,
                                 const Fragments& fragments, std::string* why) {
  auto t = try_fragment(loops, st, fragments, Fragment::A, Fragment::B, why);
  if (!t) return {};
  const Load* load = t->value.as<Load>();
  *why = "it does not copy from shared memory";
  if (!load || load->buffer->scope != Scope::Shared) return {};
  t->kind = TileNest::Kind::Load;
  t->a = {st.buffer, at(st.indices, loops, {0, 0})};
  return t;
}

// A box of which only the first elements of each line are wanted. TMA writes the others too: they
// belong to the tile, and nothing reads them.
std::optional<TileNest> try_guarded_box(const MarkedNest& n, std::string* why) {
  const Binary* end = n.guards.size() == 1 ? n.guards[0].as<Binary>() : nullptr;
  if (n.loops.size() == 2 && end && end->op == BinaryOp::Lt && uses_var(end->a, n.loops[1].var) &&
      !uses_var(n.guards[0], n.loops[0].var))
    return try_bulk_load(n, why);
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
        if (!f || !is_tensorized(f->loop)) return;
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

std::vector<TileMatch> tile_matches(const Fragments& fragments) {
  using Loops = std::vector<NestLoop>;
  const auto unguarded = [](auto attempt) {
    return [attempt](const MarkedNest& n, std::string* why) -> std::optional<TileNest> {
      if (n.guards.empty()) return attempt(n.loops, *n.store, why);
      *why = "its elements have conditions";
      return {};
    };
  };
  // A product, or what fills its sums.
  const auto product = [&](auto attempt) {
    return unguarded([attempt, &fragments](const Loops& loops, const Store& st, std::string* why) {
      auto t = attempt(loops, st, why);
      std::string no_fill;
      if (!t) t = try_fill(loops, st, fragments, &no_fill);
      if (!t) *why += "; as what fills its sums: " + no_fill;
      return t;
    });
  };
  const auto fragment = [&fragments](const Loops& loops, const Store& st, std::string* why) {
    return try_load(loops, st, fragments, why);
  };
  const auto load = [](const MarkedNest& n, std::string* why) {
    return n.guards.empty() ? try_bulk_load(n, why) : try_guarded_box(n, why);
  };
  const auto store = [](const MarkedNest& n, std::string* why) {
    return try_bulk_store(n.loops, *n.store, n.guards, why);
  };
  return {{tma_store_instruction(), store},
          {wgmma_instruction(), product(try_group_product)},
          {mma_instruction(), product(try_product)},
          {tma_load_instruction(), load},
          {ldmatrix_instruction(), unguarded(fragment)}};
}

std::optional<TileNest> try_parse(const TileMatch& match, const For& loop,
                                  const lowering::Around& around, std::string* why) {
  const int64_t* extent = as_int(loop.extent);
  MarkedNest nest;
  if (extent) {
    nest.loops.push_back({loop.var, *extent});
    nest.store = open_nest(loop.body, &nest.loops, &nest.guards);
    nest.around = around;
    for (const NestLoop& l : nest.loops) nest.around.ranges.set(l.var, {0, l.extent - 1});
  }
  if (nest.store) return match.attempt(nest, why);
  *why = "the loops do not end in one store, or have no constant extents";
  return {};
}

}  // namespace heddle::gpu
