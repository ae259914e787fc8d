// Weights in registers before the kernel before has ended: threads load what they will read first of constants, which no
// kernel of a call writes (its first one waits: runtime/cuda/one_call.h), and wait for that kernel afterwards. Memory is
// busy in the meantime (docs/internals/decisions/gpu-lowering.md has what it gains).
//
//   for b, t { for round { sum += x[round] * w[b, t, round] } }                            (before)
//
//   for b, t { for round { ahead[round] = w[b, t, round] } }                               (after)
//   wait for the kernel before
//   for b, t { for round { sum += x[round] * ahead[round] } }
//
// Of a loop that is not unrolled the first iteration is taken out.
#include <algorithm>
#include <optional>

#include "heddle/ir/simplify.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

// Smaller constants come from a cache anyway. A thread has registers for this much.
constexpr double kLeastBytes = 16 << 10;
constexpr int64_t kMostBytes = 192;
constexpr int kMostBits = 16;

bool has_load(const Expr& e) {
  return any_below(e, [](const Expr& x) { return x.kind() == ExprKind::Load; });
}

Expr lane_of(const Expr& e, int lane) {
  if (const Ramp* r = e.as<Ramp>()) return r->base + r->stride * Expr(lane);
  if (const Broadcast* b = e.as<Broadcast>()) return b->value;
  if (const Cast* c = e.as<Cast>()) return cast(c->dtype.element(), lane_of(c->value, lane));
  const Binary* b = e.as<Binary>();
  return b && e.dtype().is_vector() ? make_binary(b->op, lane_of(b->a, lane), lane_of(b->b, lane))
                                    : e;
}

/// Neighbouring elements of memory that the lanes of an index are: each of them `times` lanes in a row.
struct Run {
  Expr base;
  int elements = 1, times = 1;
};

std::optional<Run> run_of(const Expr& index) {
  const int lanes = index.dtype().lanes;
  Run run{simplify(lane_of(index, 0)), 1, 1};
  if (run.base.dtype().is_vector()) return {};
  std::vector<int64_t> at;
  for (int lane = 0; lane < lanes; ++lane) {
    const Expr distance = simplify(lane_of(index, lane) - run.base);
    const int64_t* d = as_int(distance);
    if (!d) return {};
    at.push_back(*d);
  }
  run.times = static_cast<int>(std::ranges::count(at, 0));
  run.elements = lanes / run.times;
  for (int lane = 0; lane < lanes; ++lane)
    if (at[static_cast<size_t>(lane)] != lane / run.times) return {};
  return run.elements * run.times == lanes ? std::optional(run) : std::nullopt;
}

/// A statement as what comes before the wait (null: nothing), and what comes after it.
struct Parts {
  Stmt ahead, after;
};

class Splitter {
 public:
  explicit Splitter(const std::vector<Buffer>& constants) : constants_(constants) {}

  std::vector<Buffer> held;

  Parts of(const Stmt& s) {
    if (const For* f = s.as<For>()) return of_loop(s, *f);
    if (const Block* b = s.as<Block>()) return of_block(*b);
    if (const Allocate* a = s.as<Allocate>()) {
      const Parts p = of(a->body);
      return {p.ahead, make_allocate(a->buffer, p.after, a->copies)};
    }
    if (const If* i = s.as<If>(); i && !i->else_body && !has_load(i->condition)) {
      const Parts p = of(i->then_body);
      if (p.ahead) return {make_if(i->condition, p.ahead), make_if(i->condition, p.after)};
    }
    if (const Let* l = s.as<Let>(); l && !has_load(l->value)) {
      const Parts p = of(l->body);
      if (p.ahead)
        return {make_let(l->var, l->value, p.ahead), make_let(l->var, l->value, p.after)};
    }
    const Store* store = s.as<Store>();
    return store && store->buffer->scope == Scope::Local ? of_store(*store) : Parts{{}, s};
  }

 private:
  Parts of_block(const Block& b) {
    std::vector<Stmt> ahead, after;
    for (const Stmt& c : b.stmts) {
      const Parts p = of(c);
      if (p.ahead) ahead.push_back(p.ahead);
      after.push_back(p.after);
    }
    return {ahead.empty() ? Stmt() : make_block(std::move(ahead)), make_block(std::move(after))};
  }

  Parts of_loop(const Stmt& s, const For& f) {
    const int64_t* extent = as_int(f.extent);
    if (is_block(f.loop) || is_thread(f.loop)) {
      const Parts p = of(f.body);
      if (!p.ahead) return {{}, s};
      return {make_for(f.var, f.extent, f.loop, p.ahead),
              make_for(f.var, f.extent, f.loop, p.after)};
    }
    if (!extent || *extent < 1) return {{}, s};
    if (f.loop == LoopKind::Unrolled) {
      unrolled_.push_back({f.var, *extent});
      const Parts p = of(f.body);
      unrolled_.pop_back();
      if (!p.ahead) return {{}, s};
      return {make_for(f.var, f.extent, f.loop, p.ahead),
              make_for(f.var, f.extent, f.loop, p.after)};
    }
    if (f.loop != LoopKind::Serial) return {{}, s};
    const Parts first = of(simplify(substitute(f.body, {{f.var, Expr(0)}})));
    if (!first.ahead) return {{}, s};
    const Var next(f.var->name);
    const Stmt rest = simplify(make_for(next, Expr(*extent - 1), f.loop,
                                        substitute(f.body, {{f.var, next.expr() + Expr(1)}})));
    return {first.ahead, *extent == 1 ? first.after : make_block({first.after, rest})};
  }

  Parts of_store(const Store& s) {
    std::vector<Stmt> ahead;
    RewriteMemo memo;
    const Expr value = without_reads(s.value, memo, &ahead);
    if (ahead.empty()) return {{}, make_store(s.buffer, s.indices, s.value, s.hint)};
    return {make_block(std::move(ahead)), make_store(s.buffer, s.indices, value, s.hint)};
  }

  // What only some lanes read is left where it is.
  Expr without_reads(const Expr& e, RewriteMemo& memo, std::vector<Stmt>* ahead) {
    return memo(e, [&](const Expr& x) {
      if (x.kind() == ExprKind::Select) return x;
      const Load* load = x.as<Load>();
      if (!load)
        return map_children(x, [&](const Expr& c) { return without_reads(c, memo, ahead); });
      const Expr read = held_read(*load, ahead);
      return read.defined() ? read : x;
    });
  }

  /// The read of a register in the place of the load, and the store to it; null where there is none.
  Expr held_read(const Load& load, std::vector<Stmt>* ahead) {
    if (load.indices.size() != 1 || !is_large(load.buffer) || has_load(load.indices[0])) return {};
    const std::optional<Run> run = run_of(load.indices[0]);
    if (!run) return {};
    Expr slot(0);
    int64_t slots = 1;
    for (const auto& [var, extent] : unrolled_) {
      slot = slot * Expr(extent) + var.expr();
      slots *= extent;
    }
    const DataType type = load.buffer->dtype;
    const int64_t bytes = slots * std::max<int64_t>(run->elements * type.bytes(), 2);
    if (bytes_ + bytes > kMostBytes) return {};
    bytes_ += bytes;
    const Buffer& b = held.emplace_back(Buffer::make(load.buffer->name + "_ahead", type,
                                                     {Expr(slots * run->elements)}, Scope::Local));
    const auto ramp = [](const Expr& base, int lanes) {
      return lanes == 1 ? base : make_ramp(base, Expr(1), lanes);
    };
    const Expr first = simplify(slot * Expr(run->elements));
    ahead->push_back(make_store(b, {ramp(first, run->elements)},
                                make_load(load.buffer, {ramp(run->base, run->elements)})));
    const int lanes = run->elements * run->times;
    if (run->times == 1) return make_load(b, {ramp(first, lanes)});
    const Expr each = floordiv(ramp(Expr(0), lanes), make_broadcast(Expr(run->times), lanes));
    return make_load(b, {each + make_broadcast(first, lanes)});
  }

  bool is_large(const Buffer& b) const {
    double bytes = b->dtype.bytes();
    for (const Expr& extent : b->shape) {
      const int64_t* n = as_int(extent);
      bytes *= n ? static_cast<double>(*n) : 0;
    }
    return b->dtype.bits <= kMostBits && !b->dtype.is_bool() && bytes >= kLeastBytes &&
           std::ranges::count(constants_, b) > 0;
  }

  struct Unrolled {
    Var var;
    int64_t extent;
  };
  const std::vector<Buffer>& constants_;
  std::vector<Unrolled> unrolled_ = {};
  int64_t bytes_ = 0;
};

bool has_tiles(const Stmt& s) {
  bool found = false;
  visit(
      s,
      [&](const Stmt& x) {
        found |= x.kind() == StmtKind::TileOp || x.kind() == StmtKind::Prefetch;
      },
      [](const Expr&) {});
  return found;
}

}  // namespace

void overlap_launch(GpuKernel& kernel, const std::vector<Buffer>& constants) {
  if (!kernel.body || kernel.cluster > 1 || kernel.pair > 1 || has_tiles(kernel.body))
    return overlap_launch(kernel);
  Splitter splitter(constants);
  const Parts parts = splitter.of(kernel.body);
  if (parts.ahead) kernel.body = parts.after;
  overlap_launch(kernel);
  if (!parts.ahead) return;
  kernel.body = make_block({parts.ahead, kernel.body});
  for (const Buffer& b : splitter.held) kernel.body = make_allocate(b, kernel.body);
}

}  // namespace heddle::gpu
