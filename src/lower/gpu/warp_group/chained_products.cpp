#include "lower/gpu/warp_group/chained_products.h"

#include <algorithm>
#include <iterator>

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/tiles/begun_products.h"

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
  std::vector<Stmt> before, between, late;
  Stmt first, second;
  Buffer products, sums;  // accumulators of the first product and of the second
};

Chain chain_of(const Stmt& use) {
  Chain c;
  Buffer weights;
  const std::vector<Stmt> all = statements(use);
  const auto is_product = [](const Stmt& s) { return product_in(s) != nullptr; };
  const auto one = std::find_if(all.begin(), all.end(), is_product);
  const auto two = one == all.end() ? one : std::find_if(std::next(one), all.end(), is_product);
  HEDDLE_ICHECK(two != all.end() && std::next(two) == all.end(),
                "an iteration over boxes is no chain of two products");
  c.first = *one;
  c.second = *two;
  c.products = product_in(c.first)->operands[0].buffer;
  c.sums = product_in(c.second)->operands[0].buffer;
  weights = product_in(c.second)->operands[1].buffer;
  HEDDLE_ICHECK(weights->scope == Scope::Local, "the second product has no operand in registers");
  c.before.assign(all.begin(), one);
  // What accesses registers of the second product must wait for that of the tile before.
  const auto late = std::find_if(std::next(one), two, [&](const Stmt& s) {
    return accesses(s, weights) || accesses(s, c.sums);
  });
  c.between.assign(std::next(one), late);
  c.late.assign(late, two);
  for (const Stmt& s : c.before)
    HEDDLE_ICHECK(!accesses(s, weights) && !accesses(s, c.sums), "a chain of products is mixed up");
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

bool has_chained_products(const Stmt& use) {
  const std::vector<Stmt> all = statements(use);
  return std::count_if(all.begin(), all.end(),
                       [](const Stmt& s) { return product_in(s) != nullptr; }) > 1;
}

int registers_of_chain(const Stmt& use) {
  constexpr int64_t kOthers = 32;
  const Chain c = chain_of(use);
  const Buffer& weights = product_in(c.second)->operands[1].buffer;
  return static_cast<int>(c.products.num_elements() + c.sums.num_elements() +
                          weights.num_elements() / 2 + kOthers);
}

Stmt chained_products(const For& loop, const FillAndUse& tiles, const ChainedRing& ring) {
  const Chain c = chain_of(tiles.use);
  const Expr none(0), one(int64_t{1}), k = loop.var.expr();
  const auto all_at = [&](const std::vector<Stmt>& list, const Expr& i) {
    std::vector<Stmt> out;
    for (const Stmt& s : list) out.push_back(ring.at(s, i));
    return make_block(std::move(out));
  };
  const Stmt commit = make_sync(SyncKind::GroupCommit);
  const auto multiply = [&](const Expr& i) {
    return make_block({ring.wait(i), all_at(c.before, i),
                       fenced(begun(ring.at(c.first, i), c.products)), commit});
  };
  const Expr next = simplify(k + one), last = simplify(loop.extent - one);
  const Stmt begin = make_block(
      {multiply(none), group_wait(c.products, 0), all_at(c.between, none), all_at(c.late, none)});
  const Stmt round = make_block({multiply(next), ring.at(c.second, k), commit,
                                 group_wait(c.products, 1), all_at(c.between, next),
                                 group_wait(c.sums, 0), ring.release(k), all_at(c.late, next)});
  const Stmt end = make_block(
      {fenced(ring.at(c.second, last)), commit, group_wait(c.sums, 0), ring.release(last)});
  Stmt s = make_if(loop.extent > none,
                   make_block({begin, make_for(loop.var, last, loop.loop, round), end}));
  for (const Buffer& b : tiles.others) s = make_allocate(b, s);
  return s;
}

}  // namespace heddle::gpu
