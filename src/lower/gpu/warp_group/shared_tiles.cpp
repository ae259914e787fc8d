#include "lower/gpu/warp_group/shared_tiles.h"

#include "heddle/instruction/tiles.h"
#include "heddle/support/error.h"

namespace heddle::gpu {
namespace {

constexpr int64_t kLanes = 32, kGroupThreads = kLanes * wgmma::kWarps, kVector = 4;

// All threads of a warp group run `body`, which is given the number of each.
Stmt by_group(FunctionRef<Stmt(const Expr&)> body) {
  const Var lane("lane"), warp("warp");
  return make_for(warp, Expr(wgmma::kWarps), LoopKind::ThreadY,
                  make_for(lane, Expr(kLanes), LoopKind::ThreadX,
                           body(warp.expr() * Expr(kLanes) + lane.expr())));
}

// Four sums of each thread at a time: `of(index in the registers, index in memory from `first`)`.
Stmt for_all_sums(const Buffer& sums, const Expr& first,
                  FunctionRef<Stmt(const Expr&, const Expr&)> of) {
  return by_group([&](const Expr& thread) {
    const Var i("i");
    const Expr registers = make_ramp(i.expr() * Expr(kVector), Expr(1), kVector),
               memory = make_ramp(
                   first + i.expr() * Expr(kVector * kGroupThreads) + thread * Expr(kVector),
                   Expr(1), kVector);
    return make_for(i, Expr(sums.num_elements() / kVector), LoopKind::Unrolled,
                    of(registers, memory));
  });
}

}  // namespace

Stmt with_all_parts(SharedTiles& s, const Buffer& sums, const Expr& group, int64_t groups,
                    const Stmt& rest) {
  HEDDLE_ICHECK(sums.num_elements() % kVector == 0, "a thread has a multiple of four sums");
  const int64_t of_group = sums.num_elements() * kGroupThreads;
  s.memory = Buffer::make(sums->name + ".parts", sums->dtype, {Expr(groups * s.slots * of_group)},
                          Scope::Global);
  s.tickets = Buffer::make("tickets", u32, {Expr(s.tiles * groups)}, Scope::Global);
  const auto place = [&](const Expr& slot) {
    return (group * Expr(s.slots) + slot) * Expr(of_group);
  };
  const auto load = [&](const Expr& at) { return make_load(s.memory, {at}); };
  const Stmt store = for_all_sums(sums, place(s.own), [&](const Expr& r, const Expr& m) {
    return make_store(s.memory, {m}, make_load(sums, {r}));
  });
  const Stmt begin = for_all_sums(sums, place(s.first), [&](const Expr& r, const Expr& m) {
    return make_store(sums, {r}, load(m));
  });
  const Var other("other");
  const auto slot_of = [&](const Expr& x) { return s.first + Expr(1) + x * Expr(s.distance); };
  const Stmt add =
      for_all_sums(sums, place(slot_of(other.expr())), [&](const Expr& r, const Expr& m) {
        return make_store(sums, {r}, make_load(sums, {r}) + load(m));
      });
  const Buffer last = Buffer::make("last", i32, {Expr(1)}, Scope::Local);
  const auto set_last = [&](int to) { return make_store(last, {Expr(0)}, make_const(i32, to)); };
  const Expr is_last = make_load(last, {Expr(0)}) > make_const(i32, 0);
  const auto arrive = [&](bool if_last) {
    return make_tile_op(tile::LastArrival{if_last},
                        {{last, Expr(0)},
                         {s.tickets, s.number * Expr(groups) + group},
                         {s.tickets, s.parts},
                         {s.memory, place(s.first)},
                         {s.memory, place(slot_of(s.parts - Expr(2)) + Expr(1))}});
  };
  Stmt fix_up = make_block({store, arrive(false), make_if(is_last, begin)});
  if (s.looks.defined()) {
    fix_up = make_block({make_if(s.looks, arrive(true), set_last(0)),
                         make_if(make_load(last, {Expr(0)}) < make_const(i32, 1), fix_up)});
  }
  const Stmt others = make_for(other, s.parts - Expr(1), LoopKind::Serial, add);
  fix_up = make_block({fix_up, make_if(is_last, others)});
  return make_allocate(
      last, make_block({set_last(1), s.shared.defined() ? make_if(s.shared, fix_up) : fix_up,
                        make_if(is_last, rest)}));
}

}  // namespace heddle::gpu
