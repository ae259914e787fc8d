// Loads and products by warps of their own, as Hopper's libraries have them (CUTLASS's
// warp-specialized kernels): one thread keeps a ring of tiles filled by TMA, and warp groups
// multiply what has arrived.
//
//   for blocks { local C; C = 0
//     for k { shared A x N, B x N; bulk_load A; bulk_load B; C += A*B (wgmma) }
//     store C }
//   -->
//   shared A, B rings of N; barriers full[N], empty[N]
//   if the last warp group {
//     for blocks { for k { wait empty[k % N]; expect full[k % N]; bulk_load A, B } }
//   } else {
//     for blocks { local C; C = 0
//       for k { wait full[k % N]; C += A*B; commit; wait for the product before;
//               its empty: arrive }
//       store C } }
//
// Results may leave through shared memory (stored_tiles.h). Boxes that are loaded outside of the
// loop over k arrive at a barrier of their own. A loop over
// tiles whose products follow from each other is pipelined otherwise (chained_products.h).
//
// Iterations are counted over all loops around the one over k: the ring goes on from one tile of a
// persistent block to the next, and the loads of that run ahead of the stores of this.
#include <algorithm>
#include <optional>

#include "heddle/instruction/tiles.h"
#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "ir/sizes.h"
#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/tiles/begun_products.h"
#include "lower/gpu/tiles/partial_sums.h"
#include "lower/gpu/warp_group/chained_products.h"
#include "lower/gpu/warp_group/group_order.h"
#include "lower/gpu/warp_group/load_ring.h"
#include "lower/gpu/warp_group/stored_tiles.h"

namespace heddle::gpu {
namespace {

// Registers per thread, by the number of warp groups that multiply (1 to 3): of the loading group,
// and of the multiplying groups. setmaxnreg moves registers from the former to the latter. With one
// multiplying group there are enough.
struct Registers {
  int loads, multiplies;
};
constexpr Registers kRegisters[] = {{0, 0}, {40, 232}, {32, 160}};

// With one multiplying group several blocks share an SM, as many as have `needed` registers for
// each thread that multiplies. A block begins with the same number for all threads, for which ptxas
// wants those of one product and some more.
Registers registers_of_one(const ChainRegisters& needed) {
  constexpr int kLoads = 24, kThreads = 256, kRegistersOfSm = 65536, kMost = 232, kBesides = 26;
  Registers best{0, 0};
  for (int blocks = 2; blocks <= 4; ++blocks) {
    const int all = kRegistersOfSm / (blocks * kThreads) / 8 * 8;
    const int multiplies = std::min(kMost, 2 * all - kLoads);
    if (multiplies >= needed.all && all >= needed.widest + kBesides) best = {kLoads, multiplies};
  }
  return best;
}

// The loop over the two blocks of a pair; null where blocks are alone.
const For* pair_loop(const Stmt& s) {
  const For* found = nullptr;
  visit(
      s,
      [&](const Stmt& x) {
        const For* f = x.as<For>();
        if (f && f->loop == LoopKind::PairX) found = f;
      },
      [](const Expr&) {});
  return found;
}

// ---- roles ----

// Splits a kernel into what the thread that loads does and what the warp groups do that multiply.
class Roles {
 public:
  Roles(GpuKernel& kernel, Turns* turns, bool allow_tf32)
      : kernel_(kernel),
        turns_(*turns),
        allow_tf32_(allow_tf32),
        order_(*turns, kernel.block[2]),
        results_(order_) {}

  void run() {
    HEDDLE_ICHECK(kernel_.block[0] == kWarpLanes && kernel_.block[1] == wgmma::kWarps &&
                      kernel_.cluster == 1 && !kernel_.tail,
                  "boxes are loaded for warp groups of 32 x 4 threads");
    if (const For* pair = pair_loop(kernel_.body)) rank_ = pair->var;
    kernel_.pair = rank_ ? 2 : 1;
    const Stmt loads = producer(kernel_.body, Expr(0));
    HEDDLE_ICHECK(loads && ring_, "no loop over tiles of several copies loads boxes");
    kernel_.body = whole(loads, order_.all_turns(consumer(kernel_.body, Expr(0))));
    kernel_.block[2] = order_.consumers() + 1;
  }

 private:
  static constexpr int64_t kWarpLanes = 32;

  static bool has_ring(const Stmt& s) {
    bool found = false;
    visit(s, [&](const Stmt& x) { found |= ring_of(x).has_value(); }, [](const Expr&) {});
    return found;
  }

  // The number of iterations before this one over all loops so far: `before` counts those of the
  // outer loops.
  Expr counted(const For& f, const Expr& before) const {
    if (is_block(f.loop) || f.loop == LoopKind::PairX) return before;
    if (turns_.before.defined() && ring_of(Stmt(&f))) return simplify(turns_.before + f.var.expr());
    if (is_const(before, 0)) return f.var.expr();
    return simplify(before * f.extent + f.var.expr());
  }

  // The loops that lead to the ring, with nothing but the loads.
  Stmt producer(const Stmt& s, const Expr& before) {
    if (!s || !has_bulk_load(s)) return {};
    if (std::optional<FillAndUse> p = ring_of(s)) {
      HEDDLE_ICHECK(!ring_, "a kernel has two rings of boxes");
      ring_.emplace(std::move(*p), rank_);
      const For& f = *s.as<For>();
      return make_for(f.var, f.extent, f.loop, ring_->fill(counted(f, before)));
    }
    if (!has_ring(s)) {
      HEDDLE_ICHECK(is_const(before, 0), "a persistent block loads boxes outside of its ring");
      return singles_.load(s, rank_);
    }
    if (const For* f = s.as<For>())
      return make_for(f->var, f->extent, f->loop, producer(f->body, counted(*f, before)));
    if (const Allocate* a = s.as<Allocate>()) {
      if (a->buffer->scope == Scope::Shared && a->copies == 1 && !is_stored_tile(*a))
        singles_.add(a->buffer);
      return producer(a->body, before);
    }
    return map_children(
        s, [&](const Stmt& c) { return producer(c, before); }, [](const Expr& e) { return e; });
  }

  // `s` without the loads.
  Stmt consumer(const Stmt& s, const Expr& before) {
    if (!s) return s;
    if (const Allocate* a = s.as<Allocate>(); a && is_stored_tile(*a))
      return results_.open(*a, [&](const Stmt& body) { return consumer(body, before); });
    return results_.around(s, [&](const Stmt& x) { return multiplied(x, before); });
  }

  // The statements of a tile, of which those after the ring use its sums.
  Stmt shared_tile(const Block& b, const Expr& before) {
    std::vector<Stmt> out, rest;
    Buffer sums;
    for (const Stmt& c : b.stmts) {
      if (const std::optional<FillAndUse> ring = ring_of(c)) sums = registers_of(ring->use);
      (sums && !ring_of(c) ? rest : out).push_back(consumer(c, before));
    }
    if (sums)
      out.push_back(
          with_all_parts(*turns_.shared, sums, order_.group(), order_.groups(), make_block(rest)));
    return make_block(std::move(out));
  }

  Stmt multiplied(const Stmt& s, const Expr& before) {
    if (const Block* b = s.as<Block>(); b && turns_.shared) return shared_tile(*b, before);
    const For* f = s.as<For>();
    if (has_bulk_load(s)) {
      if (ring_of(s)) return multiplications(*f, before);
      if (!has_ring(s)) return singles_.wait();
      if (const Allocate* a = s.as<Allocate>(); a && singles_.has(a->buffer))
        return consumer(a->body, before);
      if (f)
        return make_for(f->var, f->extent, f->loop,
                        order_.of_turn(*f, consumer(f->body, counted(*f, before))));
    }
    // All threads of the role run this loop.
    if (f && f->loop == LoopKind::ThreadZ) {
      const int64_t* n = as_int(f->extent);
      if (n && *n == order_.groups())
        return consumer(substitute(f->body, {{f->var, order_.group()}}), before);
    }
    return map_children(
        s, [&](const Stmt& c) { return consumer(c, before); }, [](const Expr& e) { return e; });
  }

  // One product is in flight while the loop goes on to the next tile.
  Stmt multiplications(const For& f, const Expr& before) {
    if (has_chained_products(ring_->tiles())) return chained(f, before);
    HEDDLE_ICHECK(ring_->tiles().others.empty(), "a loop over boxes allocates other buffers");
    const Expr count = counted(f, before), one(int64_t{1});
    const Stmt use = consumer(ring_->at(ring_->use(), count), before);
    const auto loop = [&](const Stmt& round) {
      return order_.in_order(make_for(f.var, f.extent, f.loop, round));
    };
    if (sums_are_short(use, allow_tf32_)) return loop(round_of_short_sums(use, count));
    const Stmt round =
        make_block({ring_->wait(count), make_sync(SyncKind::GroupFence), use,
                    make_sync(SyncKind::GroupCommit), wait_for_products(use, 1),
                    make_if(f.var.expr() > Expr(0), ring_->release(simplify(count - one)))});
    const Expr last = simplify(substitute(count, {{f.var, simplify(f.extent - one)}}));
    return make_block({loop(round), wait_for_products(use, 0), ring_->release(last)});
  }

  Stmt chained(const For& f, const Expr& before) {
    const auto count_at = [&](const Expr& k) {
      return simplify(substitute(counted(f, before), {{f.var, k}}));
    };
    const ChainedRing ring{[&](const Stmt& s, const Expr& k) {
                             return ring_->at(consumer(substitute(s, {{f.var, k}}), before),
                                              count_at(k));
                           },
                           [&](const Expr& k) { return ring_->wait(count_at(k)); },
                           [&](const Expr& k) { return ring_->release(count_at(k)); }};
    chained_registers_ = registers_of_chain(ring_->use(), f.var);
    return chained_products(f, ring_->tiles(), ring);
  }

  // The f32 registers of the sums take what the products of one tile add up to. Another warp group
  // multiplies meanwhile.
  Stmt round_of_short_sums(const Stmt& use, const Expr& count) const {
    const PartialSums part = partial_sums(use);
    const Stmt round =
        make_block({ring_->wait(count), make_sync(SyncKind::GroupFence), part.products,
                    make_sync(SyncKind::GroupCommit), wait_for_products(part.products, 0),
                    ring_->release(count), part.add});
    return make_allocate(part.registers, round);
  }

  Stmt init() const {
    std::vector<Stmt> all{ring_->init(order_.groups())};
    for (const auto& more : {singles_.init(), order_.init()})
      all.insert(all.end(), more.begin(), more.end());
    return make_for(Var("group"), Expr(1), LoopKind::ThreadZ, by_one_thread(make_block(all)));
  }

  Stmt whole(const Stmt& loads, const Stmt& multiplies) const {
    const int64_t consumers = order_.consumers();
    const Registers r = order_.groups() == 1 && chained_registers_.all > 0
                            ? registers_of_one(chained_registers_)
                            : kRegisters[std::min<int64_t>(consumers, 3) - 1];
    const auto given = [](int n) { return n ? make_sync(SyncKind::Registers, n) : Stmt(); };
    const Var& group = order_.warp_group();
    const Stmt roles =
        make_for(group, Expr(consumers + 1), LoopKind::ThreadZ,
                 make_if(group.expr() >= Expr(consumers),
                         make_block({given(-r.loads), by_one_thread(loads)}),
                         make_block({given(r.multiplies), multiplies, results_.end()})));
    // No block of a pair goes while the other one may still write to its memory.
    const Stmt end = kernel_.pair > 1 ? make_sync(SyncKind::Block) : Stmt();
    Stmt s = make_block({init(), make_sync(SyncKind::Block), roles, end});
    s = order_.with_barriers(singles_.with_barriers(ring_->with_barriers(s)));
    for (const auto* list : {&singles_.tiles(), &results_.tiles()}) {
      for (const Buffer& b : *list) s = make_allocate(b, s);
    }
    return ring_->with_tiles(s);
  }

  GpuKernel& kernel_;
  Turns& turns_;
  const bool allow_tf32_;
  const GroupOrder order_;
  StoredTiles results_;
  SingleLoads singles_;
  std::optional<LoadRing> ring_;
  std::optional<Var> rank_;           // of the block in its pair
  ChainRegisters chained_registers_;  // for chained products; 0: there are none
};

}  // namespace

std::vector<Buffer> warp_roles(GpuKernel& kernel, const Schedule& schedule) {
  if (!has_bulk_load(kernel.body)) return {};
  kernel.body = with_ring(kernel.body);
  const int64_t pair = pair_loop(kernel.body) ? 2 : 1;
  const int64_t blocks = std::max<int64_t>(1, schedule.target().gpu.sms / pair);
  Turns turns;
  kernel.body = in_turns(kernel.body, blocks, &turns);
  const LaunchShape shape = launch_shape(kernel.body);
  kernel.grid[0] = shape.grid[0] * pair;
  kernel.grid_of[0] = shape.grid_of[0];
  if (kernel.grid_of[0].defined() && pair > 1)
    throw_user_error("blocks run in pairs, and their number depends on sizes", {},
                     "set the knob 'pairs' to 0");
  Roles(kernel, &turns, schedule.options().allow_tf32).run();
  if (!turns.shared) return {};
  kernel.tickets = turns.shared->tickets;
  const std::vector<Buffer> workspace{turns.shared->memory, turns.shared->tickets};
  kernel.args.insert(kernel.args.end(), workspace.begin(), workspace.end());
  return workspace;
}

}  // namespace heddle::gpu
