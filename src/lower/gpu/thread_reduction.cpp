#include "lower/gpu/thread_reduction.h"

#include <algorithm>

#include "heddle/ir/simplify.h"

namespace heddle::gpu {
namespace {

Expr replace_loads(const Expr& e, const std::vector<std::pair<Expr, Expr>>& map,
                   RewriteMemo& memo) {
  return memo(e, [&](const Expr& x) {
    for (const auto& [from, to] : map) {
      if (equal(x, from)) return to;
    }
    return map_children(x, [&](const Expr& c) { return replace_loads(c, map, memo); });
  });
}

bool uses_any(const std::vector<Expr>& list, const Var& v) {
  return std::any_of(list.begin(), list.end(), [&](const Expr& e) { return uses_var(e, v); });
}

// lhs op rhs, either way round: the part is then any expression.
std::optional<Expr> simple_part(const Expr& value, const Expr& self) {
  const Binary* b = value.as<Binary>();
  if (!b) return {};
  switch (b->op) {
    case BinaryOp::Add:
    case BinaryOp::Mul:
    case BinaryOp::Min:
    case BinaryOp::Max:
    case BinaryOp::And:
    case BinaryOp::Or: break;
    default: return {};
  }
  if (equal(b->a, self)) return b->b;
  if (equal(b->b, self)) return b->a;
  return {};
}

bool reads(const Expr& e, const Buffer& buffer) {
  return any_below(e, [&](const Expr& x) {
    const Load* load = x.as<Load>();
    return load && load->buffer == buffer;
  });
}

}  // namespace

std::optional<ThreadReduction> as_thread_reduction(const For& loop) {
  // The stores at the bottom, and what the lets give them.
  std::vector<VarBinding> lets;
  Stmt s = loop.body;
  while (const Let* l = s.as<Let>()) {
    lets.push_back({l->var, l->value});
    s = l->body;
  }
  std::vector<Stmt> stores;
  if (const Block* b = s.as<Block>()) {
    stores = b->stmts;
  } else {
    stores = {s};
  }
  ThreadReduction r;
  r.thread = loop.var;
  std::vector<Expr> values, selves;
  for (const Stmt& x : stores) {
    const Store* st = x.as<Store>();
    if (!st || uses_any(st->indices, loop.var)) return {};
    r.components.push_back({st->buffer,
                            st->indices,
                            {},
                            Var("lhs", st->buffer->dtype),
                            Var("rhs", st->buffer->dtype)});
    values.push_back(substitute(st->value, lets));
    selves.push_back(make_load(st->buffer, st->indices));
  }
  if (r.components.size() != std::max<size_t>(1, lets.size())) return {};
  if (r.components.size() == 1) {
    auto& c = r.components[0];
    if (std::optional<Expr> part = simple_part(values[0], selves[0])) {
      if (reads(*part, c.to)) return {};
      c.part = *part;
      r.combine.push_back(make_binary(values[0].as<Binary>()->op, c.lhs.expr(), c.rhs.expr()));
      return r;
    }
  }
  // A user's combiner: the parts are loads of the partial results, one a component in the order in
  // which their buffers were made.
  std::vector<Expr> parts;
  for (const Expr& v : values) {
    visit(v, [&](const Expr& e) {
      if (e.kind() != ExprKind::Load || !uses_var(e, loop.var)) return;
      for (const Expr& p : parts) {
        if (equal(p, e)) return;
      }
      parts.push_back(e);
    });
  }
  if (parts.size() != r.components.size()) return {};
  std::sort(parts.begin(), parts.end(), [](const Expr& a, const Expr& b) {
    return a.as<Load>()->buffer->id < b.as<Load>()->buffer->id;
  });
  std::vector<std::pair<Expr, Expr>> map;
  for (size_t k = 0; k < parts.size(); ++k) {
    if (parts[k].dtype() != r.components[k].to->dtype) return {};
    r.components[k].part = parts[k];
    map.emplace_back(selves[k], r.components[k].lhs.expr());
    map.emplace_back(parts[k], r.components[k].rhs.expr());
  }
  for (const Expr& v : values) {
    RewriteMemo memo;
    r.combine.push_back(replace_loads(v, map, memo));
    if (uses_var(r.combine.back(), loop.var)) return {};
    for (const auto& c : r.components) {
      if (reads(r.combine.back(), c.to)) return {};
    }
  }
  return r;
}

namespace {

// to[k] = combine(lhs[k], rhs[k]), all read before any is written.
Stmt combine(const ThreadReduction& r, const std::vector<Expr>& lhs, const std::vector<Expr>& rhs,
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

}  // namespace

Stmt emit_thread_reduction(const ThreadReduction& r, int64_t extent, int64_t block, bool counted) {
  constexpr int64_t kWarp = 32;
  const size_t n = r.components.size();
  const int64_t warps = extent / kWarp;
  std::vector<Buffer> own, shared;
  std::vector<Expr> mine, so_far;
  std::vector<Stmt> seq, first;
  auto into_own = [&](size_t k, const Expr& v) { return make_store(own[k], {Expr(0)}, v); };
  auto into = [&](size_t k, const Expr& v) {
    return make_store(r.components[k].to, r.components[k].at, v);
  };
  for (const auto& c : r.components) {
    own.push_back(Buffer::make(c.to->name + ".part", c.to->dtype, {Expr(1)}, Scope::Local));
    mine.push_back(make_load(own.back(), {Expr(0)}));
    so_far.push_back(make_load(c.to, c.at));
    counted &= c.to->dtype.bytes() == 4 || c.to->dtype.bytes() == 8;
    first.push_back(into_own(first.size(), c.part));
  }
  auto over_lanes = [&] {
    std::vector<Stmt> steps;
    for (int lane = 16; lane > 0; lane /= 2) {
      std::vector<Expr> other;
      for (const Expr& e : mine) other.push_back(make_shuffle(e, lane));
      steps.push_back(combine(r, mine, other, into_own));
    }
    return make_block(std::move(steps));
  };
  seq.push_back(make_for(r.thread, Expr(extent), LoopKind::ThreadX, make_block(first)));
  // (Other threads have no part.)
  seq.push_back(extent == block
                    ? over_lanes()
                    : make_for(Var("t"), Expr(extent), LoopKind::ThreadX, over_lanes()));
  // Memory that all threads see is one thread's to update.
  const bool all = std::all_of(r.components.begin(), r.components.end(),
                               [](const auto& c) { return c.to->scope == Scope::Local; });
  auto finish = [&](const Stmt& s) {
    return all ? s : make_for(Var("one"), Expr(1), LoopKind::ThreadX, s);
  };
  if (warps > 1 || extent < block) {
    Var t("t"), reader("t"), w("warp");
    const Expr lane = floormod(reader.expr(), Expr(kWarp));
    std::vector<Stmt> leaders, begin;
    std::vector<Expr> by_one, by_lane;
    for (size_t k = 0; k < n; ++k) {
      const Buffer& to = r.components[k].to;
      shared.push_back(Buffer::make(to->name + ".warps", to->dtype, {Expr(warps)}, Scope::Shared));
      leaders.push_back(make_store(shared[k], {floordiv(t.expr(), Expr(kWarp))}, mine[k],
                                   counted ? StoreHint::Async : StoreHint::None));
      by_one.push_back(make_load(shared[k], {w.expr()}));
      begin.push_back(into_own(k, make_load(shared[k], {lane})));
      by_lane.push_back(make_load(shared[k], {(w.expr() + Expr(1)) * Expr(kWarp) + lane}));
    }
    seq.push_back(
        make_for(t, Expr(extent), LoopKind::ThreadX,
                 make_if(floormod(t.expr(), Expr(kWarp)) == Expr(0), make_block(leaders))));
    if (counted) seq.push_back(make_sync(SyncKind::AsyncWait));
    if (warps <= kWarp) {
      seq.push_back(
          finish(make_for(w, Expr(warps), LoopKind::Unrolled, combine(r, so_far, by_one, into))));
    } else {
      // So many that each warp shares them out once more.
      begin.push_back(make_for(w, Expr(warps / kWarp - 1), LoopKind::Unrolled,
                               combine(r, mine, by_lane, into_own)));
      seq.push_back(make_for(reader, Expr(extent), LoopKind::ThreadX, make_block(begin)));
      seq.push_back(over_lanes());
      seq.push_back(finish(combine(r, so_far, mine, into)));
    }
  } else {
    seq.push_back(finish(combine(r, so_far, mine, into)));
  }
  Stmt s = make_block(std::move(seq));
  for (const Buffer& b : own) s = make_allocate(b, s);
  for (const Buffer& b : shared) s = make_allocate(b, s);
  return s;
}

}  // namespace heddle::gpu
