#include <algorithm>

#include "heddle/ir/simplify.h"
#include "lower/gpu/threads/thread_loops.h"
#include "lower/gpu/threads/thread_reduction.h"

namespace heddle::gpu {
namespace {

// to[k] = combine(lhs[k], rhs[k]), all read before any is written.
Stmt combined(const ThreadReduction& r, const std::vector<Expr>& lhs, const std::vector<Expr>& rhs,
              FunctionRef<Stmt(size_t, const Expr&)> store) {
  std::vector<VarBinding> bind;
  std::vector<Var> right;
  for (size_t k = 0; k < r.components.size(); ++k) {
    right.emplace_back("part", r.components[k].to->dtype);
    bind.push_back({r.components[k].lhs, lhs[k]});
    bind.push_back({r.components[k].rhs, right[k].expr()});
  }
  std::vector<Var> fresh;
  std::vector<Stmt> stores;
  for (size_t k = 0; k < r.components.size(); ++k) {
    fresh.emplace_back("both", r.components[k].to->dtype);
    stores.push_back(store(k, fresh[k].expr()));
  }
  Stmt s = make_block(std::move(stores));
  for (size_t k = r.components.size(); k-- > 0;)
    s = make_let(fresh[k], substitute(r.combine[k], bind), s);
  for (size_t k = r.components.size(); k-- > 0;) s = make_let(right[k], rhs[k], s);
  return s;
}

// Writes the phases of one reduction:
//
//   for t (threadIdx.x) { part = the thread's own }     0 where the row is beyond the last one
//   part = the sum over the lanes of the warp           by butterfly shuffles
//   [ warps[t / 32] = part of the first lane            one warp's part an element of shared memory
//     to = to + warps[0] + warps[1] + ..                every thread, or of many warps: shuffles ]
class Emitter {
 public:
  Emitter(const ThreadReduction& r, int64_t extent, int64_t block, bool counted)
      : r_(r), extent_(extent), block_(block), warps_(extent / kWarp), counted_(counted) {
    for (const auto& c : r.components) {
      own_.push_back(Buffer::make(c.to->name + ".part", c.to->dtype, {Expr(1)}, Scope::Local));
      mine_.push_back(make_load(own_.back(), {Expr(0)}));
      so_far_.push_back(make_load(c.to, c.at));
      const int bytes = c.to->dtype.bytes();
      counted_ &= bytes == 4 || bytes == 8;
    }
  }

  Stmt run() {
    std::vector<Stmt> first;
    for (size_t k = 0; k < own_.size(); ++k) {
      // All lanes take part in shuffles, also those without a row.
      if (r_.condition.defined())
        first.push_back(into_own(k, make_const(r_.components[k].to->dtype, 0)));
      first.push_back(in_row(into_own(k, r_.components[k].part)));
    }
    seq_.push_back(make_for(r_.thread, Expr(extent_), LoopKind::ThreadX, make_block(first)));
    // Only the first `extent_` threads have a part.
    seq_.push_back(extent_ == block_
                       ? over_lanes()
                       : make_for(Var("t"), Expr(extent_), LoopKind::ThreadX, over_lanes()));
    if (warps_ > 1 || extent_ < block_) {
      through_shared();
    } else {
      seq_.push_back(finished(combine_into(so_far_, mine_)));
    }
    Stmt s = make_block(std::move(seq_));
    for (const Buffer& b : own_) s = make_allocate(b, s);
    for (const Buffer& b : shared_) s = make_allocate(b, s);
    return s;
  }

 private:
  Stmt into_own(size_t k, const Expr& v) const { return make_store(own_[k], {Expr(0)}, v); }

  Stmt combine_into_own(const std::vector<Expr>& lhs, const std::vector<Expr>& rhs) const {
    return combined(r_, lhs, rhs, [&](size_t k, const Expr& v) { return into_own(k, v); });
  }
  Stmt combine_into(const std::vector<Expr>& lhs, const std::vector<Expr>& rhs) const {
    return in_row(combined(r_, lhs, rhs, [&](size_t k, const Expr& v) {
      return make_store(r_.components[k].to, r_.components[k].at, v);
    }));
  }

  Stmt in_row(const Stmt& s) const { return r_.condition.defined() ? make_if(r_.condition, s) : s; }

  Stmt over_lanes() const {
    std::vector<Stmt> steps;
    for (int64_t lane = std::min(kWarp, extent_) / 2; lane > 0; lane /= 2) {
      std::vector<Expr> other;
      for (const Expr& e : mine_) other.push_back(make_shuffle(e, static_cast<int>(lane)));
      steps.push_back(combine_into_own(mine_, other));
    }
    return make_block(std::move(steps));
  }

  // One thread updates memory that all threads see.
  Stmt finished(const Stmt& s) const {
    const bool all = std::all_of(r_.components.begin(), r_.components.end(),
                                 [](const auto& c) { return c.to->scope == Scope::Local; });
    return all ? s : make_for(Var("one"), Expr(1), LoopKind::ThreadX, s);
  }

  void through_shared() {
    Var t("t"), reader("t"), w("warp");
    const Expr lane = floormod(reader.expr(), Expr(kWarp));
    std::vector<Stmt> leaders, begin;
    std::vector<Expr> by_one, by_lane;
    for (size_t k = 0; k < own_.size(); ++k) {
      const Buffer& to = r_.components[k].to;
      shared_.push_back(
          Buffer::make(to->name + ".warps", to->dtype, {Expr(warps_)}, Scope::Shared));
      leaders.push_back(make_store(shared_[k], {floordiv(t.expr(), Expr(kWarp))}, mine_[k],
                                   counted_ ? StoreHint::Async : StoreHint::None));
      by_one.push_back(make_load(shared_[k], {w.expr()}));
      begin.push_back(into_own(k, make_load(shared_[k], {lane})));
      by_lane.push_back(make_load(shared_[k], {(w.expr() + Expr(1)) * Expr(kWarp) + lane}));
    }
    seq_.push_back(
        make_for(t, Expr(extent_), LoopKind::ThreadX,
                 make_if(floormod(t.expr(), Expr(kWarp)) == Expr(0), make_block(leaders))));
    if (counted_) seq_.push_back(make_sync(SyncKind::AsyncWait));
    if (warps_ <= kWarp) {
      const Stmt all = combine_into(so_far_, by_one);
      seq_.push_back(finished(make_for(w, Expr(warps_), LoopKind::Unrolled, all)));
      return;
    }
    // There are more parts than a warp has lanes, so each lane first combines several.
    begin.push_back(make_for(w, Expr(warps_ / kWarp - 1), LoopKind::Unrolled,
                             combine_into_own(mine_, by_lane)));
    seq_.push_back(make_for(reader, Expr(extent_), LoopKind::ThreadX, make_block(begin)));
    seq_.push_back(over_lanes());
    seq_.push_back(finished(combine_into(so_far_, mine_)));
  }

  const ThreadReduction& r_;
  const int64_t extent_, block_, warps_;
  bool counted_;
  // For each component: own_, each thread's part; shared_, the warps' parts; mine_, a load of the
  // first; so_far_, a load of the result so far.
  std::vector<Buffer> own_, shared_;
  std::vector<Expr> mine_, so_far_;
  std::vector<Stmt> seq_;
};

}  // namespace

Stmt emit_thread_reduction(const ThreadReduction& r, int64_t extent, int64_t block, bool counted) {
  return Emitter(r, extent, block, counted).run();
}

}  // namespace heddle::gpu
