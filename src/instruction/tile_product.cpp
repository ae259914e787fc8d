#include "instruction/tile_product.h"

#include <algorithm>
#include <utility>

#include "heddle/instruction/instruction.h"
#include "heddle/instruction/tiles.h"
#include "ir/affine_lanes.h"

namespace heddle::instructions {
namespace {

constexpr int kGroupBytes = static_cast<int>(amx::kGroupBytes),
              kTileRegisters = static_cast<int>(amx::kRegisters);

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

bool is_plain(const NarrowFactor& f) { return !f.flipped && f.bits == ByteBits::All; }

class Matcher {
 public:
  Matcher(const For& marked, TileProduct* out, std::string* why)
      : marked_(marked), p_(*out), why_(*why) {}

  bool run() {
    std::vector<const For*> loops;
    const Stmt body = innermost(Stmt(&marked_), &loops);
    const Store* store = body.as<Store>();
    if (!store) return fail("there is more than one statement inside of its loops");
    for (const For* f : loops) {
      if (f != &marked_ && f->loop != LoopKind::Serial)
        return fail("loop '" + f->var->name + "' is " + to_string(f->loop));
    }
    if (!take_store(*store)) return false;
    if (!sort_loops(loops)) return false;
    const std::vector<DataType> types{p_.c.buffer->dtype, p_.a.buffer->dtype, p_.b.buffer->dtype};
    if (!amx_instruction().form(types, {p_.rows, p_.lanes, p_.groups * size_}))
      return fail("there are no tiles of " + std::to_string(p_.rows) + " x " +
                  std::to_string(p_.lanes) + " x " + std::to_string(p_.groups * size_));
    const int held = p_.row_tiles.count() * p_.col_tiles.count();
    if (std::min(p_.row_tiles.count(), p_.col_tiles.count()) + 1 > kTileRegisters - held)
      return fail("its tiles do not fit the registers");
    return true;
  }

 private:
  bool fail(const std::string& why) {
    why_ = why;
    return false;
  }

  // Matches C[..] = C[..] + the products of one group.
  bool take_store(const Store& s) {
    const std::optional<AffineLanes> lanes =
        s.indices.size() == 1 ? as_affine_lanes(s.indices[0]) : std::nullopt;
    if (!lanes || !is_const(lanes->stride, 1)) return fail("its results are not side by side");
    p_.lanes = s.value.dtype().lanes;
    std::vector<Expr> terms;
    terms_of(s.value, terms);
    std::vector<NarrowTerm> products;
    int own = 0;
    for (const Expr& e : terms) {
      const Load* load = e.as<Load>();
      if (load && load->buffer == s.buffer && load->indices.size() == 1 &&
          equal(load->indices[0], s.indices[0])) {
        ++own;
      } else if (std::optional<NarrowTerm> product = as_narrow_term(e);
                 product && is_plain(product->a) && is_plain(product->b)) {
        products.push_back(*product);
      } else {
        return fail("it adds up something else than products");
      }
    }
    if (own != 1 || products.empty()) return fail("it is no sum of products");
    const DataType a = products[0].a.buffer->dtype, b = products[0].b.buffer->dtype;
    if (!amx_instruction().form({s.buffer->dtype, a, b}))
      return fail("there are no tiles of these types");
    const int size = kGroupBytes / a.bytes();
    if (static_cast<int>(products.size()) != size) return fail("it does not add up whole groups");
    const NarrowTerm& first = products[0];
    if (first.a.stride != 0 || first.b.stride != size)
      return fail("groups do not lie side by side");
    for (int i = 1; i < size; ++i) {
      if (!follows(first.a, products[static_cast<size_t>(i)].a, i, {}) ||
          !follows(first.b, products[static_cast<size_t>(i)].b, i, {}))
        return fail("the members of a group do not lie side by side");
    }
    p_.c = {s.buffer, lanes->base};
    p_.a = {first.a.buffer, first.a.base};
    p_.b = {first.b.buffer, first.b.base};
    size_ = size;
    return true;
  }

  struct Steps {
    int64_t c, a, b;
  };
  std::optional<Steps> steps(const For& f) const {
    const auto c = step_of(p_.c.at, f.var), a = step_of(p_.a.at, f.var),
               b = step_of(p_.b.at, f.var);
    return c && a && b ? std::optional(Steps{*c, *a, *b}) : std::nullopt;
  }

  // The innermost loops are those of a tile: its rows, and inside of them the groups of the
  // reduction.
  bool sort_loops(std::vector<const For*> loops) {
    std::vector<const For*> inside;
    auto take = [&](int64_t* extent) {
      *extent = *as_int(loops.back()->extent);
      inside.push_back(loops.back());
      loops.pop_back();
    };
    auto last = [&](auto&& is_it) {
      if (loops.size() < 2) return false;
      const std::optional<Steps> s = steps(*loops.back());
      const int64_t* n = as_int(loops.back()->extent);
      return s && n && *n <= amx::kRows && is_it(*s);
    };
    if (last([&](const Steps& s) { return s.c == 0 && s.a == size_ && s.b != 0; })) {
      p_.b.step = steps(*loops.back())->b;
      take(&p_.groups);
    }
    if (last([](const Steps& s) { return s.c != 0 && s.a != 0 && s.b == 0; })) {
      const Steps s = *steps(*loops.back());
      p_.c.step = s.c;
      p_.a.step = s.a;
      take(&p_.rows);
    }
    for (const For* f : loops) {
      const std::optional<Steps> s = steps(*f);
      const bool outside = p_.row_tiles.loops.empty() && p_.col_tiles.loops.empty();
      if (f == &marked_ || (outside && s && s->c == 0)) {
        if (uses_var(p_.c.at, f->var)) return fail("the marked loop is none of the reduction");
        p_.reduce.push_back(f);
      } else if (!s || !as_int(f->extent)) {
        return fail("the distance of tiles along '" + f->var->name + "' varies");
      } else if (s->c == 0 || (s->a != 0) == (s->b != 0)) {
        return fail("loop '" + f->var->name + "' goes neither over rows nor over columns");
      } else {
        (s->a != 0 ? p_.row_tiles : p_.col_tiles).loops.push_back(f);
      }
    }
    for (TileProduct::Operand* x : {&p_.c, &p_.a, &p_.b}) x->at = at_zero(x->at, inside);
    return true;
  }

  const For& marked_;
  TileProduct& p_;
  std::string& why_;
  int size_ = 1;
};

using StepsOfLoops =
    std::vector<std::pair<int64_t, int64_t>>;  // (step in elements, number of steps)

void add_loop(StepsOfLoops* out, int64_t step, int64_t count) {
  if (count > 1) out->emplace_back(step, count);
}

}  // namespace

int TileProduct::Tiles::count() const {
  int64_t n = 1;
  for (const For* f : loops) n *= *as_int(f->extent);
  return static_cast<int>(std::min<int64_t>(n, kTileRegisters));
}

std::vector<VarBinding> TileProduct::Tiles::at(int i) const {
  std::vector<VarBinding> out;
  int64_t rest = i;
  for (auto f = loops.rbegin(); f != loops.rend(); ++f) {
    const int64_t n = *as_int((*f)->extent);
    out.push_back({(*f)->var, Expr(rest % n)});
    rest /= n;
  }
  return out;
}

bool TileProduct::holds_columns() const {
  const int held = row_tiles.count() * col_tiles.count();
  return col_tiles.count() + 1 <= kTileRegisters - held;
}

int TileProduct::c_register(int row, int col) const { return row * col_tiles.count() + col; }

int TileProduct::a_register(int row) const {
  const int first = row_tiles.count() * col_tiles.count();
  if (!holds_columns()) return first + row;
  const int free = kTileRegisters - first - col_tiles.count();
  return first + col_tiles.count() + row % free;
}

int TileProduct::b_register(int col) const {
  const int first = row_tiles.count() * col_tiles.count();
  if (holds_columns()) return first + col;
  const int free = kTileRegisters - first - row_tiles.count();
  return first + row_tiles.count() + col % free;
}

TileConfig TileProduct::config() const {
  // The layout of palette 1: from byte 16 on, the bytes of a row of each tile (two bytes each);
  // from byte 48 on, the numbers of rows.
  TileConfig out{};
  out[0] = 1;
  auto set = [&](int tile, int64_t of_rows, int64_t row_groups) {
    out[static_cast<size_t>(16 + 2 * tile)] = static_cast<uint8_t>(row_groups * kGroupBytes);
    out[static_cast<size_t>(48 + tile)] = static_cast<uint8_t>(of_rows);
  };
  for (int m = 0; m < row_tiles.count(); ++m) {
    set(a_register(m), rows, groups);
    for (int n = 0; n < col_tiles.count(); ++n) set(c_register(m, n), rows, lanes);
  }
  for (int n = 0; n < col_tiles.count(); ++n) set(b_register(n), groups, lanes);
  return out;
}

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
