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
#include "lower/gpu/tiles/partial_sums.h"
#include "lower/gpu/warp_group/chained_products.h"
#include "lower/gpu/warp_group/stored_tiles.h"
#include "lower/gpu/warp_group/tile_ring.h"
#include "lower/gpu/warp_group/turns.h"

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
// each thread that multiplies. A block begins with the same number for all threads.
Registers registers_of_one(int needed) {
  constexpr int kLoads = 24, kThreads = 256, kRegistersOfSm = 65536, kMost = 232;
  Registers best{0, 0};
  for (int blocks = 2; blocks <= 4; ++blocks) {
    const int all = kRegistersOfSm / (blocks * kThreads) / 8 * 8;
    const int multiplies = std::min(kMost, 2 * all - kLoads);
    if (multiplies >= needed) best = {kLoads, multiplies};
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

class Roles {
 public:
  Roles(GpuKernel& kernel, Turns* turns)
      : kernel_(kernel),
        turns_(*turns),
        groups_(kernel.block[2]),
        consumers_(turns->alternate ? 2 * groups_ : groups_) {}

  void run() {
    HEDDLE_ICHECK(kernel_.block[0] == kWarpLanes && kernel_.block[1] == wgmma::kWarps &&
                      kernel_.cluster == 1 && !kernel_.tail,
                  "boxes are loaded for warp groups of 32 x 4 threads");
    if (const For* pair = pair_loop(kernel_.body)) rank_ = pair->var;
    kernel_.pair = rank_ ? 2 : 1;
    const Stmt loads = producer(kernel_.body, {}, Expr(0));
    HEDDLE_ICHECK(loads && found_, "no loop over tiles of several copies loads boxes");
    HEDDLE_ICHECK(!turns_.alternate || groups_ == 1, "warp groups that take turns work alone");
    Stmt multiplies = consumer(kernel_.body, Expr(0));
    if (turns_.alternate && !turns_.turn) multiplies = make_if(group_.expr() < Expr(1), multiplies);
    kernel_.body = whole(loads, multiplies);
    kernel_.block[2] = consumers_ + 1;
  }

 private:
  static constexpr int64_t kWarpLanes = 32, kMostSingleLoads = 4;

  bool has_ring(const Stmt& s) const {
    bool found = false;
    visit(s, [&](const Stmt& x) { found |= ring_of(x).has_value(); }, [](const Expr&) {});
    return found;
  }

  static bool says_who(const For& f) { return is_block(f.loop) || f.loop == LoopKind::PairX; }

  // The number of iterations before this one over all loops so far: `before` counts those of the
  // outer loops.
  Expr counted(const For& f, const Expr& before) const {
    if (turns_.before.defined() && ring_of(Stmt(&f))) return simplify(turns_.before + f.var.expr());
    if (is_const(before, 0)) return f.var.expr();
    return simplify(before * f.extent + f.var.expr());
  }

  // The loops that lead to the ring, with nothing but the loads.
  Stmt producer(const Stmt& s, const std::vector<VarBinding>& lets, const Expr& before) {
    if (!s || !has_bulk_load(s)) return {};
    if (const std::optional<FillAndUse> p = ring_of(s)) return loads(*s.as<For>(), *p, before);
    if (!has_ring(s)) return single_loads(s, before);
    if (const For* f = s.as<For>()) {
      const Expr count = says_who(*f) ? before : counted(*f, before);
      return make_for(f->var, f->extent, f->loop, producer(f->body, lets, count));
    }
    if (const Allocate* a = s.as<Allocate>()) {
      if (a->buffer->scope == Scope::Shared && a->copies == 1 && !is_stored_tile(*a))
        singles_.push_back(a->buffer);
      return producer(a->body, lets, before);
    }
    return map_children(
        s, [&](const Stmt& c) { return producer(c, lets, before); },
        [](const Expr& e) { return e; });
  }

  // `s` without the loads.
  Stmt consumer(const Stmt& s, const Expr& before) {
    if (!s) return s;
    if (const Allocate* a = s.as<Allocate>(); a && is_stored_tile(*a))
      return with_stored_tile(*a, before);
    const bool whole = !stored_.empty() && !in_results_ && !s.as<Block>() && !s.as<Allocate>(),
               fill = whole && fills(s, stored_), copy = whole && has_bulk_store(s);
    if (fill == copy) return multiplied(s, before);
    in_results_ = true;
    const Stmt inside = multiplied(s, before);
    in_results_ = false;
    return fill ? filled_tile(inside, stored_) : copied_tile(inside);
  }

  // Warp groups that take turns have a tile each.
  Stmt with_stored_tile(const Allocate& a, const Expr& before) {
    const size_t number = stored_.size();
    stored_.push_back(a.buffer);
    const Stmt inside = consumer(a.body, before);
    if (!turns_.alternate) return inside;
    FillAndUse both;
    both.t = {{a.buffer}, 2};
    both.rings = {Buffer::make(a.buffer->name, a.buffer->dtype, {Expr(2 * a.buffer.num_elements())},
                               Scope::Shared)};
    stored_[number] = both.rings[0];
    return in_slot(inside, both, group_.expr(), false);
  }

  // The statements of a tile, of which those after the ring use its sums.
  Stmt shared_tile(const Block& b, const Expr& before) {
    std::vector<Stmt> out, rest;
    Buffer sums;
    for (const Stmt& c : b.stmts) {
      if (const std::optional<FillAndUse> ring = ring_of(c)) sums = registers_of(ring->use);
      (sums && !ring_of(c) ? rest : out).push_back(consumer(c, before));
    }
    if (!sums) return make_block(std::move(out));
    out.push_back(with_all_parts(*turns_.shared, sums, group(), groups_, make_block(rest)));
    return make_block(std::move(out));
  }

  Stmt multiplied(const Stmt& s, const Expr& before) {
    if (const Block* b = s.as<Block>(); b && turns_.shared) return shared_tile(*b, before);
    if (has_bulk_load(s)) {
      if (ring_of(s)) return multiplications(*s.as<For>(), before);
      if (!has_ring(s)) return wait(arrived_, Expr(waits_++), Expr(0));
      if (const Allocate* a = s.as<Allocate>(); a && is_single(a->buffer))
        return consumer(a->body, before);
      if (const For* f = s.as<For>()) {
        const Expr count = says_who(*f) ? before : counted(*f, before);
        return make_for(f->var, f->extent, f->loop, of_turn(*f, consumer(f->body, count)));
      }
    }
    // All threads of the role run this loop.
    if (const For* f = s.as<For>(); f && f->loop == LoopKind::ThreadZ) {
      const int64_t* n = as_int(f->extent);
      if (n && *n == groups_) return consumer(substitute(f->body, {{f->var, group()}}), before);
    }
    return map_children(
        s, [&](const Stmt& c) { return consumer(c, before); }, [](const Expr& e) { return e; });
  }

  // The number of a warp group among those that multiply a tile together.
  Expr group() const { return turns_.alternate ? Expr(0) : group_.expr(); }
  Expr turn() const { return turns_.turn ? turns_.turn->expr() : Expr(0); }

  // `body`, which is that of loop `f`, where the warp group has this turn.
  Stmt of_turn(const For& f, const Stmt& body) const {
    if (!turns_.alternate || !turns_.turn || f.var.get() != turns_.turn->get()) return body;
    return make_if(floormod(turn(), Expr(2)) == group_.expr(), body);
  }

  // `products`, which wait for tiles of the ring, after those of the turn before. A wait for a tile
  // tells only every other round of the ring from the next one.
  Stmt in_order(const Stmt& products) const {
    if (!turns_.alternate) return products;
    const Expr parity =
        simplify(floormod(floordiv(turn(), Expr(2)) + Expr(1) - group_.expr(), Expr(2)));
    return make_block(
        {wait(order_, group_.expr(), parity), products,
         by_one_thread(on(tile::BarrierArrive{false}, order_, Expr(1) - group_.expr()))});
  }

  void make_barriers(const FillAndUse& p) {
    HEDDLE_ICHECK(!found_, "a kernel has two rings of boxes");
    found_ = true;
    copies_ = p.t.copies;
    rings_ = p.rings;
    full_ = Buffer::make("full", u64, {Expr(int64_t{copies_})}, Scope::Shared);
    empty_ = Buffer::make("empty", u64, {Expr(int64_t{copies_})}, Scope::Shared);
    HEDDLE_ICHECK(copies_ > 1, "a ring of boxes has several copies");
  }

  bool is_single(const Buffer& b) const {
    return std::find(singles_.begin(), singles_.end(), b) != singles_.end();
  }

  // Boxes that a block loads once, before the ring: each statement that loads some has a barrier.
  Stmt single_loads(const Stmt& s, const Expr& before) {
    HEDDLE_ICHECK(is_const(before, 0), "a persistent block loads boxes outside of its ring");
    HEDDLE_ICHECK(loads_ < kMostSingleLoads, "a block loads too many boxes outside of its ring");
    const Expr slot(loads_++);
    return make_block({on(expect(bytes_of(s)), arrived_, slot), with_barrier(s, {arrived_, slot})});
  }

  Expr slot_of(const Expr& count) const {
    return simplify(floormod(count, Expr(int64_t{copies_})));
  }
  // The parity of the phase in which iteration `count` uses its slot.
  Expr parity_of(const Expr& count) const {
    return simplify(floormod(floordiv(count, Expr(int64_t{copies_})), Expr(2)));
  }
  static Stmt on(tile::Operation op, const Buffer& barrier, const Expr& slot) {
    return make_tile_op(std::move(op), {{barrier, slot}});
  }
  static tile::BarrierExpect expect(int64_t bytes) { return {static_cast<int>(bytes)}; }
  static tile::BarrierInit init_for(int64_t arrivals) { return {static_cast<int>(arrivals)}; }
  static Stmt wait(const Buffer& barrier, const Expr& slot, const Expr& parity) {
    return make_tile_op(tile::BarrierWait{}, {{barrier, slot}, {barrier, parity}});
  }

  // The bytes of all boxes that one fill of the ring loads.
  static int64_t bytes_of(const Stmt& s) {
    if (const auto* load = tile_operation<tile::BulkLoad>(s))
      return int64_t{load->box.rows} * load->box.columns *
             s.as<TileOp>()->operands[0].buffer->dtype.bytes();
    // A barrier that expects bytes of a box that is not loaded would wait for ever.
    HEDDLE_ICHECK(!s.as<If>(), "a box is loaded on a condition");
    int64_t bytes = 0;
    const For* f = s.as<For>();
    map_children(
        s,
        [&](const Stmt& c) {
          bytes += bytes_of(c);
          return c;
        },
        [](const Expr& e) { return e; });
    if (!f) return bytes;
    const int64_t* times = as_int(f->extent);
    HEDDLE_ICHECK(times, "the loop over '" + f->var->name + "' loads a varying number of boxes");
    return bytes * *times;
  }

  // Both blocks of a pair load what does not depend on which of them it is together.
  Stmt with_barrier(const Stmt& s, const TileOperand& barrier) const {
    if (const auto* loaded = tile_operation<tile::BulkLoad>(s)) {
      tile::BulkLoad load = *loaded;
      std::vector<TileOperand> operands = s.as<TileOp>()->operands;
      load.by_pair = rank_ && load.box.rows % 16 == 0 && load.windows.empty();
      for (const TileOperand& o : operands)
        load.by_pair = load.by_pair && !uses_var(o.index, *rank_);
      operands.push_back(barrier);
      return make_tile_op(std::move(load), std::move(operands));
    }
    return map_children(
        s, [&](const Stmt& c) { return with_barrier(c, barrier); },
        [](const Expr& e) { return e; });
  }

  Stmt loads(const For& f, const FillAndUse& p, const Expr& before) {
    make_barriers(p);
    ring_ = p;
    const Expr count = counted(f, before), slot = slot_of(count);
    // For a new barrier, a wait for the phase before the first one returns at once.
    const Stmt round = make_block({wait(empty_, slot, simplify(Expr(1) - parity_of(count))),
                                   on(expect(bytes_of(p.fill)), full_, slot),
                                   with_barrier(in_slot(p.fill, p, slot, false), {full_, slot})});
    return make_for(f.var, f.extent, f.loop, round);
  }

  // One product is in flight while the loop goes on to the next tile.
  Stmt multiplications(const For& f, const Expr& before) {
    const FillAndUse& p = ring_;
    if (has_chained_products(p.use)) return chained(f, before);
    HEDDLE_ICHECK(p.others.empty(), "a loop over boxes allocates other buffers");
    const Expr count = counted(f, before), slot = slot_of(count), one(int64_t{1});
    const auto release = [&](const Expr& c) {
      return by_one_thread(on(tile::BarrierArrive{kernel_.pair > 1}, empty_, slot_of(c)));
    };
    const Stmt use = consumer(in_slot(p.use, p, slot, false), before);
    if (sums_are_short(use))
      return in_order(
          make_for(f.var, f.extent, f.loop, round_of_short_sums(use, count, release(count))));
    const Stmt round =
        make_block({wait(full_, slot, parity_of(count)), make_sync(SyncKind::GroupFence), use,
                    make_sync(SyncKind::GroupCommit), wait_for_products(use, 1),
                    make_if(f.var.expr() > Expr(0), release(simplify(count - one)))});
    const Expr last = simplify(substitute(count, {{f.var, simplify(f.extent - one)}}));
    return make_block({in_order(make_for(f.var, f.extent, f.loop, round)),
                       wait_for_products(use, 0), release(last)});
  }

  Stmt chained(const For& f, const Expr& before) {
    const auto count_at = [&](const Expr& k) {
      return simplify(substitute(counted(f, before), {{f.var, k}}));
    };
    const ChainedRing ring{
        [&](const Stmt& s, const Expr& k) {
          const Stmt there = consumer(substitute(s, {{f.var, k}}), before);
          return in_slot(there, ring_, slot_of(count_at(k)), false);
        },
        [&](const Expr& k) { return wait(full_, slot_of(count_at(k)), parity_of(count_at(k))); },
        [&](const Expr& k) {
          return by_one_thread(on(tile::BarrierArrive{false}, empty_, slot_of(count_at(k))));
        }};
    chained_registers_ = registers_of_chain(ring_.use);
    return chained_products(f, ring_, ring);
  }

  // The f32 registers of the sums take what the products of one tile add up to. Another warp group
  // multiplies meanwhile.
  Stmt round_of_short_sums(const Stmt& use, const Expr& count, const Stmt& release) const {
    const PartialSums part = partial_sums(use);
    const Stmt round =
        make_block({wait(full_, slot_of(count), parity_of(count)), make_sync(SyncKind::GroupFence),
                    part.products, make_sync(SyncKind::GroupCommit),
                    wait_for_products(part.products, 0), release, part.add});
    return make_allocate(part.registers, round);
  }

  // The registers that products add to.
  static Buffer registers_of(const Stmt& use) {
    Buffer c;
    visit(
        use,
        [&](const Stmt& x) {
          if (tile_operation<tile::GroupMma>(x)) c = x.as<TileOp>()->operands[0].buffer;
        },
        [](const Expr&) {});
    HEDDLE_ICHECK(c, "a ring of boxes that no warp group multiplies");
    return c;
  }

  static Stmt wait_for_products(const Stmt& use, int pending) {
    const Buffer c = registers_of(use);
    const int done = pending ? 0 : static_cast<int>(c.num_elements());
    return make_tile_op(tile::GroupWait{pending, done}, {{c, Expr(0)}});
  }

  Stmt init() const {
    const Var slot("slot");
    const Stmt each = make_block({on(tile::BarrierInit{1}, full_, slot),
                                  on(init_for(groups_ * kernel_.pair), empty_, slot)});
    Stmt all = make_for(slot, Expr(int64_t{copies_}), LoopKind::Serial, each);
    for (int i = 0; i < loads_; ++i)
      all = make_block({all, on(tile::BarrierInit{1}, arrived_, Expr(i))});
    for (int i = 0; turns_.alternate && i < 2; ++i)
      all = make_block({all, on(tile::BarrierInit{1}, order_, Expr(i))});
    return make_for(Var("group"), Expr(1), LoopKind::ThreadZ, by_one_thread(all));
  }

  Stmt whole(const Stmt& loads, const Stmt& multiplies) const {
    const Registers r = groups_ == 1 && chained_registers_ > 0
                            ? registers_of_one(chained_registers_)
                            : kRegisters[std::min<int64_t>(consumers_, 3) - 1];
    const auto given = [](int n) { return n ? make_sync(SyncKind::Registers, n) : Stmt(); };
    const Stmt roles =
        make_for(group_, Expr(consumers_ + 1), LoopKind::ThreadZ,
                 make_if(group_.expr() >= Expr(consumers_),
                         make_block({given(-r.loads), by_one_thread(loads)}),
                         make_block({given(r.multiplies), multiplies,
                                     stored_.empty() ? Stmt() : wait_for_copies()})));
    // No block of a pair goes while the other one may still write to its memory.
    const Stmt end = kernel_.pair > 1 ? make_sync(SyncKind::Block) : Stmt();
    Stmt s = make_block({init(), make_sync(SyncKind::Block), roles, end});
    for (const Buffer& b : {full_, empty_}) s = make_allocate(b, s);
    if (loads_ > 0) s = make_allocate(arrived_, s);
    if (turns_.alternate) s = make_allocate(order_, s);
    for (const auto* list : {&singles_, &stored_}) {
      for (const Buffer& b : *list) s = make_allocate(b, s);
    }
    for (auto b = rings_.rbegin(); b != rings_.rend(); ++b) s = make_allocate(*b, s);
    return s;
  }

  GpuKernel& kernel_;
  Turns& turns_;
  const int64_t groups_;     // warp groups that multiply a tile together
  const int64_t consumers_;  // all that multiply
  const Var group_{"group"};
  std::optional<Var> rank_;  // of the block in its pair
  bool found_ = false;
  int copies_ = 0;
  FillAndUse ring_;
  std::vector<Buffer> rings_;
  Buffer full_, empty_;
  std::vector<Buffer> singles_;  // tiles that are loaded once
  std::vector<Buffer> stored_;   // tiles of results
  bool in_results_ = false;      // whether a statement around fills or copies them
  int loads_ = 0, waits_ = 0;    // statements that load them, in the order of the program
  int chained_registers_ = 0;    // registers for chained products; 0: there are none
  const Buffer arrived_ =
      Buffer::make("arrived", u64, {Expr(int64_t{kMostSingleLoads})}, Scope::Shared);
  const Buffer order_ = Buffer::make("order", u64, {Expr(2)}, Scope::Shared);  // one for each group
};

}  // namespace

std::vector<Buffer> warp_roles(GpuKernel& kernel, int64_t sms) {
  if (!has_bulk_load(kernel.body)) return {};
  kernel.body = with_ring(kernel.body);
  const int64_t pair = pair_loop(kernel.body) ? 2 : 1;
  const int64_t blocks = std::max<int64_t>(1, sms / pair);
  Turns turns;
  kernel.body = in_turns(kernel.body, blocks, &turns);
  const LaunchShape shape = launch_shape(kernel.body);
  kernel.grid[0] = shape.grid[0] * pair;
  kernel.grid_of[0] = shape.grid_of[0];
  if (kernel.grid_of[0].defined() && pair > 1)
    throw_user_error("blocks run in pairs, and their number depends on sizes", {},
                     "set the knob 'pairs' to 0");
  Roles(kernel, &turns).run();
  if (!turns.shared) return {};
  kernel.tickets = turns.shared->tickets;
  const std::vector<Buffer> workspace{turns.shared->memory, turns.shared->tickets};
  kernel.args.insert(kernel.args.end(), workspace.begin(), workspace.end());
  return workspace;
}

}  // namespace heddle::gpu
