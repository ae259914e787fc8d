#include "lower/gpu/threads/row_nest.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "heddle/ir/print.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/threads/thread_loops.h"

namespace heddle::gpu {
namespace {

constexpr int64_t kRows = mma::kRows, kColumns = mma::kCols;

Expr identity_of(BinaryOp op, DataType t) {
  const double infinity = std::numeric_limits<double>::infinity();
  switch (op) {
    case BinaryOp::Add: return make_const(t, 0);
    case BinaryOp::Max: return make_const(t, -infinity);
    case BinaryOp::Min: return make_const(t, infinity);
    default: return {};
  }
}

// Spreads one nest over the lanes of a warp.
class Spreader {
 public:
  /// `outside`: the ranges of the variables around `loop`. `why` receives the reason where it cannot
  /// be spread.
  Spreader(const For& loop, Fragments* fragments, Ranges outside, std::string* why)
      : loop_(loop),
        fragments_(*fragments),
        why_(*why),
        outside_(std::move(outside)),
        lane_("lane"),
        half_("half") {
    outside_.set(loop.var, {0, kRows - 1});
    ranges_.set(lane_, {0, kWarp - 1});
    ranges_.set(half_, {0, 1});
    bind_.push_back({loop.var, half_.expr() * Expr(8) + floordiv(lane_.expr(), Expr(4))});
  }

  /// Null where it cannot be spread.
  Stmt run() {
    const int64_t* rows = as_int(loop_.extent);
    if (!rows || *rows != kRows) return fail("it has not 16 rows");
    const Stmt body = spread(loop_.body, nullptr);
    if (!why_.empty()) return {};
    return make_for(lane_, Expr(kWarp), LoopKind::ThreadX,
                    make_for(half_, Expr(2), LoopKind::Unrolled, body));
  }

 private:
  Stmt fail(const std::string& why) const {
    if (why_.empty()) why_ = why;
    return {};
  }

  Expr bound(const Expr& e) const { return simplify(substitute(e, bind_), ranges_); }

  // `col` is the variable of the loop over columns around `s`, or null.
  Stmt spread(const Stmt& s, const Var* col) {
    if (!s) return s;
    if (const For* f = s.as<For>()) {
      if (col) return fail("it has a loop in that over columns");
      return columns(*f);
    }
    if (const Store* st = s.as<Store>()) {
      note(st->buffer, st->indices, col);
      const Expr value = col ? by_layout(st->value, *col) : st->value;
      note_loads(value, col);
      std::vector<Expr> at;
      for (const Expr& i : st->indices) at.push_back(bound(i));
      const Stmt store = make_store(st->buffer, std::move(at), bound(value), st->hint);
      // The four lanes of a row have its value, and one of them stores it.
      const bool one = !col && st->buffer->scope != Scope::Local;
      return one ? make_if(floormod(lane_.expr(), Expr(4)) < Expr(1), store) : store;
    }
    return map_children(
        s, [&](const Stmt& c) { return spread(c, col); },
        [&](const Expr& e) {
          note_loads(e, col);
          return bound(e);
        });
  }

  // The column is n = 16*pair + 8*odd + 2*(lane % 4) + j.
  Stmt columns(const For& f) {
    const int64_t* extent = as_int(f.extent);
    const int64_t n = extent ? *extent : 0;
    if (n != kColumns && (n <= 0 || n % (2 * kColumns) != 0))
      return fail("its columns are no whole tiles");
    const int64_t pairs = n / (2 * kColumns), odds = pairs > 0 ? 2 : 1;
    const Var pair("pair"), odd("odd"), j("j");
    outside_.set(f.var, {0, n - 1});
    ranges_.set(pair, {0, std::max<int64_t>(pairs - 1, 0)});
    ranges_.set(odd, {0, 1});
    ranges_.set(j, {0, 1});
    bind_.push_back({f.var, (pairs > 0 ? pair.expr() * Expr(16) : Expr(0)) + odd.expr() * Expr(8) +
                                floormod(lane_.expr(), Expr(4)) * Expr(2) + j.expr()});
    const auto over_columns = [&](const Stmt& body, LoopKind inner) {
      Stmt s = make_for(j, Expr(2), inner, body);
      s = odds > 1 ? make_for(odd, Expr(odds), LoopKind::Unrolled, s)
                   : substitute(s, {{odd, Expr(0)}});
      return pairs > 0 ? make_for(pair, Expr(pairs), LoopKind::Unrolled, s) : s;
    };
    Stmt out;
    if (const Store* row = row_store(f)) {
      out = reduction(f, *row, over_columns);
    } else {
      // Two 16-bit elements fill a register.
      const bool packs = stores_of_16_bits(f.body);
      out = over_columns(spread(f.body, &f.var), packs ? LoopKind::Vectorized : LoopKind::Unrolled);
    }
    bind_.pop_back();
    return out;
  }

  static bool stores_of_16_bits(const Stmt& s) {
    const Store* st = s.as<Store>();
    return st && st->buffer->dtype.bits == 16;
  }

  // The store of a reduction over a row, at the bottom of the loop over columns.
  static const Store* row_store(const For& f) {
    Stmt s = f.body;
    while (const If* i = s.as<If>()) {
      if (i->else_body) return nullptr;
      s = i->then_body;
    }
    const Store* st = s ? s.as<Store>() : nullptr;
    if (!st) return nullptr;
    for (const Expr& i : st->indices) {
      if (uses_var(i, f.var)) return nullptr;
    }
    return st;
  }

  // Emits row = row op part, over all columns.
  Stmt reduction(const For& f, const Store& row,
                 FunctionRef<Stmt(const Stmt&, LoopKind)> over_columns) {
    const Expr self = make_load(row.buffer, row.indices);
    const Binary* b = row.value.as<Binary>();
    if (!b || !(equal(b->a, self) || equal(b->b, self)))
      return fail("it reduces rows by no operator");
    const Expr start = identity_of(b->op, row.buffer->dtype);
    if (!start.defined()) return fail("it reduces rows by another operator than +, max and min");
    const Expr part = by_layout(equal(b->a, self) ? b->b : b->a, f.var);
    note(row.buffer, row.indices, nullptr);
    note_loads(part, &f.var);
    const Buffer own =
        Buffer::make(row.buffer->name + ".part", row.buffer->dtype, {Expr(1)}, Scope::Local);
    const Expr mine = make_load(own, {Expr(0)});
    const auto add = [&](const Expr& x) {
      return make_store(own, {Expr(0)}, make_binary(b->op, mine, x));
    };
    Stmt each = add(bound(part));
    Stmt guard = f.body;
    while (const If* i = guard.as<If>()) {
      each = make_if(bound(i->condition), each);
      guard = i->then_body;
    }
    std::vector<Expr> at;
    for (const Expr& i : row.indices) at.push_back(bound(i));
    const Expr before = make_load(row.buffer, at);
    return make_allocate(
        own, make_block({make_store(own, {Expr(0)}, start), over_columns(each, LoopKind::Unrolled),
                         add(make_shuffle(mine, 1)), add(make_shuffle(mine, 2)),
                         make_store(row.buffer, at, make_binary(b->op, before, mine))}));
  }

  // Lanes hold elements by the layout. The condition of a select may have simplified the indices in
  // its arms, for example to those of the first column, which no longer tell the lane: they are
  // written by the layout again.
  Expr by_layout(const Expr& e, const Var& col) const {
    RewriteMemo memo;
    return by_layout(e, col, {}, memo);
  }
  // Arms have nodes in common with others, so each arm is rewritten by itself: down to a depth,
  // because graphs of selects are exponentially large as trees.
  Expr by_layout(const Expr& e, const Var& col, const std::vector<Expr>& conditions,
                 RewriteMemo& memo) const {
    constexpr size_t kDeepest = 2;
    return memo(e, [&](const Expr& x) -> Expr {
      const auto inside = [&](const Expr& c) { return by_layout(c, col, conditions, memo); };
      if (const Load* load = x.as<Load>()) return load_by_layout(x, *load, col, conditions);
      const Select* s = x.as<Select>();
      if (!s || conditions.size() == kDeepest) return map_children(x, inside);
      const auto arm = [&](const Expr& condition, const Expr& value) {
        std::vector<Expr> with = conditions;
        with.push_back(condition);
        RewriteMemo own;
        return by_layout(value, col, with, own);
      };
      return make_select(inside(s->condition), arm(s->condition, s->on_true),
                         arm(!s->condition, s->on_false));
    });
  }

  Expr load_by_layout(const Expr& e, const Load& load, const Var& col,
                      const std::vector<Expr>& conditions) const {
    const auto f = fragments_.find(load.buffer.get());
    if (conditions.empty() || f == fragments_.end() || f->second != Fragment::C) return e;
    const Expr row = loop_.var.expr(), column = col.expr();
    const LayoutDigits layout = mma::accumulator(0, 1);
    std::vector<Expr> indices = load.indices;
    const size_t lane = lane_dim(Fragment::C, indices.size()),
                 tile = indices.size() - layout.size();
    for (size_t d = lane; d < indices.size(); ++d) {
      const LayoutDigit& digit = layout[d - tile];
      const Expr wanted = instructions::digit_of(digit, digit.dim == 0 ? row : column);
      Expr apart = wanted - indices[d];
      for (const Expr& c : conditions) apart = make_select(c, apart, Expr(0));
      if (is_const(simplify(apart, outside_), 0)) indices[d] = wanted;
    }
    return make_load(load.buffer, std::move(indices));
  }

  void note_loads(const Expr& e, const Var* col) {
    visit(e, [&](const Expr& x) {
      if (const Load* load = x.as<Load>()) note(load->buffer, load->indices, col);
    });
  }
  // Local memory that the nest uses is held as fragments.
  void note(const Buffer& b, const std::vector<Expr>& indices, const Var* col) {
    if (b->scope != Scope::Local || fragments_.count(b.get())) return;
    const instructions::Place place{b, indices};
    std::vector<instructions::NestLoop> loops{{loop_.var, kRows}};
    std::string why;
    if (instructions::has_layout(place, loops, mma::row_values(0), &why)) {
      fragments_[b.get()] = Fragment::Row;
      return;
    }
    if (col) loops.push_back({*col, kColumns});
    if (!col || !instructions::has_layout(place, loops, mma::accumulator(0, 1), &why))
      fail("'" + b->name + "' is no fragment: " + why);
    else
      fragments_[b.get()] = Fragment::C;
  }

  const For& loop_;
  Fragments& fragments_;
  std::string& why_;
  Ranges outside_;  ///< of the variables around the nest, and of its own
  Var lane_, half_;
  Ranges ranges_;
  std::vector<VarBinding> bind_;
};

// `s` without the conditions on the way to its store that use none of `loops` and no loop of `s`
// itself.
Stmt without_fixed_conditions(const Stmt& s, std::vector<Var>* loops, std::vector<Expr>* fixed) {
  if (const For* f = s.as<For>()) {
    loops->push_back(f->var);
    return make_for(f->var, f->extent, f->loop, without_fixed_conditions(f->body, loops, fixed));
  }
  const If* i = s.as<If>();
  const auto changes = [&](const Var& v) { return uses_var(i->condition, v); };
  if (!i || i->else_body || std::any_of(loops->begin(), loops->end(), changes)) return s;
  fixed->push_back(i->condition);
  return without_fixed_conditions(i->then_body, loops, fixed);
}

// Whether the nest stores sums of products. A product's loops scale its sums before each iteration
// where the reduction is rescaled.
bool stores_sums(const For& nest, const Fragments& fragments) {
  bool all = true;
  visit(
      Stmt(&nest),
      [&](const Stmt& s) {
        const Store* st = s.as<Store>();
        const auto role = st ? fragments.find(st->buffer.get()) : fragments.end();
        all &= !st || (role != fragments.end() && role->second == Fragment::C);
      },
      [](const Expr&) {});
  return all;
}

// The nest in this way, or null.
Stmt taken(const TileMatch& match, const For& nest, const lowering::Around& around,
           TileNests* nests, std::string* why) {
  std::optional<TileNest> is = try_parse(match, nest, around, why);
  if (!is) return {};
  nests->emplace(&nest, std::move(*is));
  return Stmt(&nest);
}

// A box that is stored as a whole or not at all: the condition is tested around it.
Stmt box_on_condition(const TileMatch& store, const For& nest, const lowering::Around& around,
                      TileNests* nests) {
  std::vector<Var> loops;
  std::vector<Expr> fixed;
  Stmt box = without_fixed_conditions(Stmt(&nest), &loops, &fixed);
  std::string why;
  if (fixed.empty() || !taken(store, *box.as<For>(), around, nests, &why)) return {};
  for (auto c = fixed.rbegin(); c != fixed.rend(); ++c) box = make_if(*c, box);
  return box;
}

}  // namespace

std::vector<lowering::InstructionMatch> gpu_instructions(Fragments* fragments, TileNests* nests) {
  std::vector<lowering::InstructionMatch> out;
  for (const TileMatch& match : tile_matches(*fragments)) {
    const bool stores = &match.instruction == &tma_store_instruction();
    out.push_back(
        {match.instruction.name, [=](const For& f, const lowering::Around& at, std::string* why) {
           const Stmt nest = taken(match, f, at, nests, why);
           return nest || !stores ? nest : box_on_condition(match, f, at, nests);
         }});
  }
  const auto lanes = [=](const For& f, const lowering::Around& at, std::string* why) {
    return Spreader(f, fragments, at.ranges, why).run();
  };
  const auto scaled = [=](const For& f, const lowering::Around& at, std::string* why) {
    if (stores_sums(f, *fragments)) return lanes(f, at, why);
    *why = "it does not scale its sums";
    return Stmt();
  };
  out.push_back({mma_instruction().name, scaled});
  out.push_back({wgmma_instruction().name, scaled});
  out.push_back({lanes_instruction().name, lanes});
  return out;
}

}  // namespace heddle::gpu
