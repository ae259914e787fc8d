// Weights on their way before the kernel before has ended: blocks that wait for it ask for what they will read of
// constants, which no kernel writes. Their reads then find them in the cache, and memory is busy in the meantime.
// Blocks that do not fit on the GPU at first begin later, when there is nothing to wait for.
//
//   for b (blockIdx.x) { for t (threadIdx.x) { for round { sum += x[..] * w[b, t, round] } } }              (before)
//
//   for b (blockIdx.x) { if (b < 4224) { for t (threadIdx.x) { for round { prefetch w[b, t, round] } } } }   (after)
//   wait for the kernel before
//   for b (blockIdx.x) { for t (threadIdx.x) { for round { sum += x[..] * w[b, t, round] } } }
#include <algorithm>

#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

// Weights of fewer bytes come from a cache anyway; a thread that reads more vectors has not all of them under way. Only
// numbers of few bits, which threads unpack, gain: a step of a decoder with 4 bits takes 146 us on an H200 and 164 without.
// Those of 16 bits are bound by memory, which is as busy without (216 and 213).
constexpr double kLeastBytes = 256 << 10;
constexpr int64_t kMostFetches = 32;

bool has_load(const Expr& e) {
  return any_below(e, [](const Expr& x) { return x.kind() == ExprKind::Load; });
}

Expr first_lane(const Expr& e) {
  if (const Ramp* r = e.as<Ramp>()) return r->base;
  if (const Broadcast* b = e.as<Broadcast>()) return b->value;
  if (const Cast* c = e.as<Cast>()) return cast(c->dtype.element(), first_lane(c->value));
  const Binary* b = e.as<Binary>();
  return b && e.dtype().is_vector() ? make_binary(b->op, first_lane(b->a), first_lane(b->b)) : e;
}

/// The reads of large constants, without what is computed of them.
class Fetches {
 public:
  Fetches(const std::vector<Buffer>& constants, int64_t blocks)
      : constants_(constants), blocks_(blocks) {}

  /// Null where there are none, or too many.
  Stmt run(const Stmt& body) {
    Stmt s = of(body);
    return failed_ ? Stmt() : s;
  }

 private:
  Stmt of(const Stmt& s) {
    if (const For* f = s.as<For>()) return of_loop(*f);
    if (const Block* b = s.as<Block>()) {
      std::vector<Stmt> all;
      for (const Stmt& c : b->stmts)
        if (const Stmt x = of(c)) all.push_back(x);
      return all.empty() ? Stmt() : make_block(std::move(all));
    }
    if (const Allocate* a = s.as<Allocate>()) return of(a->body);
    if (const If* i = s.as<If>()) {
      const Stmt then = has_load(i->condition) ? Stmt() : of(i->then_body);
      return then ? make_if(i->condition, then) : Stmt();
    }
    if (const Let* l = s.as<Let>()) {
      const Stmt body = has_load(l->value) ? Stmt() : of(l->body);
      return body ? make_let(l->var, l->value, body) : Stmt();
    }
    failed_ |= s.kind() == StmtKind::TileOp || s.kind() == StmtKind::Prefetch;
    const Store* store = s.as<Store>();
    return store ? of_value(store->value) : Stmt();
  }

  Stmt of_loop(const For& f) {
    const bool serial = !is_block(f.loop) && !is_thread(f.loop);
    const int64_t* extent = as_int(f.extent);
    const int64_t outer = times_;
    if (serial) times_ *= extent ? *extent : kMostFetches + 1;
    Stmt body = of(f.body);
    times_ = outer;
    if (body && f.loop == LoopKind::BlockX) body = make_if(f.var < Expr(blocks_), body);
    return body ? make_for(f.var, f.extent, f.loop, body) : Stmt();
  }

  Stmt of_value(const Expr& value) {
    std::vector<Stmt> all;
    SeenNodes seen_nodes;
    collect(value, &seen_nodes, &all);
    return all.empty() ? Stmt() : make_block(std::move(all));
  }

  // What only some lanes read is left out.
  void collect(const Expr& e, SeenNodes* seen_nodes, std::vector<Stmt>* all) {
    if (e.kind() == ExprKind::Select || !seen_nodes->first(e)) return;
    for_each_child(e, [&](const Expr& child) { collect(child, seen_nodes, all); });
    const Load* load = e.as<Load>();
    if (!load || !is_large(load->buffer) || load->indices.size() != 1) return;
    if (has_load(load->indices[0]) || seen(e)) return;
    fetches_ += times_;
    failed_ |= fetches_ > kMostFetches;
    all->push_back(make_prefetch(load->buffer, {first_lane(load->indices[0])}));
  }

  bool is_large(const Buffer& b) const {
    double bytes = b->dtype.bytes();
    for (const Expr& extent : b->shape) {
      const int64_t* n = as_int(extent);
      bytes *= n ? static_cast<double>(*n) : 0;
    }
    return b->dtype.bits <= 8 && bytes >= kLeastBytes && std::ranges::count(constants_, b) > 0;
  }

  bool seen(const Expr& load) {
    const bool again = std::ranges::any_of(seen_, [&](const Expr& e) { return equal(e, load); });
    if (!again) seen_.push_back(load);
    return again;
  }

  const std::vector<Buffer>& constants_;
  const int64_t blocks_;  ///< that the GPU has room for
  std::vector<Expr> seen_ = {};
  int64_t times_ = 1, fetches_ = 0;
  bool failed_ = false;
};

}  // namespace

Stmt fetched_ahead(const GpuKernel& kernel, const std::vector<Buffer>& constants, const Gpu& gpu) {
  if (!kernel.body || kernel.cluster > 1 || kernel.pair > 1 || kernel.grid[1] * kernel.grid[2] > 1)
    return {};
  const int64_t threads = kernel.block[0] * kernel.block[1] * kernel.block[2];
  const int64_t of_sm = std::min<int64_t>(gpu.blocks_per_sm, gpu.threads_per_sm / threads);
  return Fetches(constants, of_sm * gpu.sms).run(kernel.body);
}

}  // namespace heddle::gpu
