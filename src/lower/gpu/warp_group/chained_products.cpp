#include "lower/gpu/warp_group/chained_products.h"

#include <algorithm>
#include <iterator>

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/tiles/begun_products.h"
#include "lower/gpu/warp_group/early_loads.h"

namespace heddle::gpu {
namespace {

// The first product of a warp group in `s`; null where there is none.
const TileOp* product_in(const Stmt& s) {
  const TileOp* found = nullptr;
  visit(
      s,
      [&](const Stmt& x) {
        const TileOp* op = x.as<TileOp>();
        if (op && op->as<tile::GroupMma>() && !found) found = op;
      },
      [](const Expr&) {});
  return found;
}

std::vector<Stmt> statements(const Stmt& s) {
  const Block* block = s.as<Block>();
  return block ? block->stmts : std::vector<Stmt>{s};
}

bool accesses(const Stmt& s, const Buffer& b) {
  bool found = false;
  visit(
      s,
      [&](const Stmt& x) {
        if (const Store* st = x.as<Store>()) found |= st->buffer == b;
        const TileOp* op = x.as<TileOp>();
        for (size_t i = 0; op && i < op->operands.size(); ++i) found |= op->operands[i].buffer == b;
      },
      [&](const Expr& e) {
        const Load* load = e.as<Load>();
        found |= load && load->buffer == b;
      });
  return found;
}

// The statements of an iteration, by when they run.
struct Chain {
  std::vector<Stmt> before, first, between, late;
  Stmt second;
  std::vector<Buffer> products;  // accumulators of the first products
  Buffer sums, weights;          // of the second one, and its operand in registers
  EarlyLoads early;
};

Chain chain_of(const Stmt& use) {
  Chain c;
  const std::vector<Stmt> all = statements(use);
  const auto is_product = [](const Stmt& s) { return product_in(s) != nullptr; };
  const auto one = std::find_if(all.begin(), all.end(), is_product);
  const auto end = std::find_if_not(one, all.end(), is_product);
  const auto two = std::find_if(end, all.end(), is_product);
  HEDDLE_ICHECK(two == all.end() || std::next(two) == all.end(),
                "an iteration over boxes is no chain of products");
  c.before.assign(all.begin(), one);
  c.first.assign(one, end);
  for (const Stmt& s : c.first) c.products.push_back(product_in(s)->operands[0].buffer);
  if (two == all.end()) {
    c.between.assign(end, two);
    return c;
  }
  c.second = *two;
  c.sums = product_in(c.second)->operands[0].buffer;
  c.weights = product_in(c.second)->operands[1].buffer;
  HEDDLE_ICHECK(c.weights->scope == Scope::Local, "the last product has no operand in registers");
  // What accesses registers of the last product must wait for that of the tile before.
  const auto is_late = [&](const Stmt& s) { return accesses(s, c.weights) || accesses(s, c.sums); };
  const auto late = std::find_if(end, two, is_late);
  c.between.assign(end, late);
  c.late.assign(late, two);
  for (const auto* list : {&c.before, &c.first})
    HEDDLE_ICHECK(std::none_of(list->begin(), list->end(), is_late),
                  "a chain of products is mixed up");
  return c;
}

ChainRegisters registers_of(const Chain& c) {
  constexpr int64_t kOthers = 32;
  int64_t all = kOthers + c.early.elements(), widest = 0;
  const auto add = [&](const Buffer& b) {
    all += b.num_elements();
    widest = std::max(widest, b.num_elements());
  };
  for (const Buffer& b : c.products) add(b);
  if (c.second) {
    add(c.sums);
    all += c.weights.num_elements() / 2;
  }
  return {static_cast<int>(all), static_cast<int>(widest)};
}

// The chain with loads of what follows its products where they do not wait for them.
Chain with_early_loads(Chain c, const Var& tile) {
  constexpr int64_t kMostRegisters =
      200;  // of those that setmaxnreg leaves to one or two warp groups
  std::vector<Stmt> uses = c.between;
  uses.insert(uses.end(), c.late.begin(), c.late.end());
  c.early = early_loads(uses, tile, kMostRegisters - registers_of(c).all);
  const auto late = c.early.uses.begin() + static_cast<std::ptrdiff_t>(c.between.size());
  c.between.assign(c.early.uses.begin(), late);
  c.late.assign(late, c.early.uses.end());
  return c;
}

bool fills_with_zeros(const Stmt& s, const Buffer& b) {
  bool zeros = true;
  visit(
      s,
      [&](const Stmt& x) {
        const Store* st = x.as<Store>();
        zeros &= !st || (st->buffer == b && is_const(st->value, 0));
        zeros &= x.kind() != StmtKind::TileOp && x.kind() != StmtKind::Sync;
      },
      [](const Expr&) {});
  return zeros;
}

// Products that begin their sum, where `s` fills their accumulators with zeros before it adds to
// them.
Stmt begun(const Stmt& s, const Buffer& sums) {
  if (const For* f = s.as<For>(); f && is_thread(f->loop))
    return make_for(f->var, f->extent, f->loop, begun(f->body, sums));
  const Block* block = s.as<Block>();
  if (!block || block->stmts.size() != 2 || !fills_with_zeros(block->stmts[0], sums) ||
      !is_single_product(block->stmts[1]))
    return s;
  return begun_products(block->stmts[1]);
}

// `s` with a fence in front of its products, behind what fills their accumulators.
Stmt fenced(const Stmt& s) {
  if (const Block* block = s.as<Block>()) {
    std::vector<Stmt> out = block->stmts;
    const auto first = std::find_if(out.begin(), out.end(),
                                    [](const Stmt& x) { return product_in(x) != nullptr; });
    *first = fenced(*first);
    return make_block(std::move(out));
  }
  const For* f = s.as<For>();
  if (f && is_thread(f->loop)) return make_for(f->var, f->extent, f->loop, fenced(f->body));
  return make_block({make_sync(SyncKind::GroupFence), s});
}

Stmt group_wait(const Buffer& c, int pending) {
  return make_tile_op(tile::GroupWait{pending, static_cast<int>(c.num_elements())}, {{c, Expr(0)}});
}

}  // namespace

bool has_chained_products(const FillAndUse& tiles) {
  const std::vector<Stmt> all = statements(tiles.use);
  const auto products =
      std::count_if(all.begin(), all.end(), [](const Stmt& s) { return product_in(s) != nullptr; });
  return products > 1 || (products == 1 && !tiles.others.empty());
}

ChainRegisters registers_of_chain(const Stmt& use, const Var& tile) {
  return registers_of(with_early_loads(chain_of(use), tile));
}

Stmt chained_products(const For& loop, const FillAndUse& tiles, const ChainedRing& ring) {
  const Chain c = with_early_loads(chain_of(tiles.use), loop.var);
  const Expr none(0), one(int64_t{1}), k = loop.var.expr();
  const auto all_at = [&](const std::vector<Stmt>& list, const Expr& i) {
    std::vector<Stmt> out;
    for (const Stmt& s : list) out.push_back(ring.at(s, i));
    return make_block(std::move(out));
  };
  const Stmt commit = make_sync(SyncKind::GroupCommit);
  const auto multiply = [&](const Expr& i) {
    std::vector<Stmt> out{ring.wait(i), all_at(c.before, i)};
    for (size_t p = 0; p < c.first.size(); ++p)
      out.push_back(fenced(begun(ring.at(c.first[p], i), c.products[p])));
    out.push_back(commit);
    return make_block(std::move(out));
  };
  // Products that are under way, and what is loaded meanwhile.
  const auto loads = [&](const Expr& i) { return all_at(c.early.each, i); };
  const auto products_wait = [&](int pending) {
    std::vector<Stmt> out;
    for (const Buffer& b : c.products) out.push_back(group_wait(b, pending));
    return make_block(std::move(out));
  };
  const auto with_others = [&](const Stmt& all) {
    Stmt s = make_block({all_at(c.early.once, none), all});
    for (const auto* list : {&tiles.others, &c.early.registers}) {
      for (const Buffer& b : *list) s = make_allocate(b, s);
    }
    return s;
  };
  if (!c.second) {
    const Stmt round = make_block(
        {multiply(k), loads(k), products_wait(0), ring.release(k), all_at(c.between, k)});
    return with_others(make_for(loop.var, loop.extent, loop.loop, round));
  }
  const Expr next = simplify(k + one), last = simplify(loop.extent - one);
  const Stmt begin = make_block({multiply(none), loads(none), products_wait(0),
                                 all_at(c.between, none), all_at(c.late, none)});
  const Stmt round = make_block({multiply(next), ring.at(c.second, k), commit, loads(next),
                                 products_wait(1), all_at(c.between, next), group_wait(c.sums, 0),
                                 ring.release(k), all_at(c.late, next)});
  const Stmt end = make_block(
      {fenced(ring.at(c.second, last)), commit, group_wait(c.sums, 0), ring.release(last)});
  return with_others(make_if(loop.extent > none,
                             make_block({begin, make_for(loop.var, last, loop.loop, round), end})));
}

}  // namespace heddle::gpu
