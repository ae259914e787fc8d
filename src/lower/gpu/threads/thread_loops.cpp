#include "lower/gpu/threads/thread_loops.h"

#include <functional>

#include "lower/gpu/threads/buffer_uses.h"
#include "lower/gpu/threads/thread_reduction.h"

namespace heddle::gpu {
namespace {

// Whether each iteration of `f`, inside of the loops `open`, writes elements of its own, or the
// same values as all others, or is the only one that writes.
bool independent(const For& f, std::vector<OpenLoop> open) {
  bool ok = true;
  std::set<const BufferNode*> inside;
  std::vector<VarBinding> lets;
  // Whether a store to memory from outside of the loop is allowed. `varies`: some iterations do not
  // reach it.
  const auto allowed = [&](const Store& st, bool varies) {
    for (const Expr& i : st.indices) {
      if (uses_var(i, f.var)) return true;
    }
    const Expr value = substitute(st.value, lets);
    const bool local = any_below(value, [](const Expr& e) {
      const Load* load = e.as<Load>();
      return load && load->buffer->scope == Scope::Local;
    });
    return !varies && !local && !uses_var(value, f.var);
  };
  std::function<void(const Stmt&, bool)> go = [&](const Stmt& s, bool varies) {
    if (!s || !ok) return;
    if (const Allocate* a = s.as<Allocate>()) inside.insert(a->buffer.get());
    if (const If* i = s.as<If>()) {
      if (!i->else_body && only_first_passes(i->condition, f.var, open)) return;
      varies |= uses_var(i->condition, f.var);
    }
    if (const Let* l = s.as<Let>()) lets.push_back({l->var, substitute(l->value, lets)});
    if (const For* g = s.as<For>()) {
      const int64_t* n = as_int(g->extent);
      open.push_back({g->var, g->loop, n ? *n : 0});
      varies |= uses_var(g->extent, f.var);
    }
    if (const Store* st = s.as<Store>()) {
      ok &= inside.count(st->buffer.get()) > 0 || allowed(*st, varies);
      return;
    }
    map_children(
        s,
        [&](const Stmt& c) {
          go(c, varies);
          return c;
        },
        [](const Expr& e) { return e; });
  };
  const int64_t* extent = as_int(f.extent);
  open.push_back({f.var, f.loop, extent ? *extent : 0});
  go(f.body, false);
  return ok;
}

class Classifier {
 public:
  explicit Classifier(const LaunchShape& shape) : shape_(shape) {}

  ThreadLoops run(Stmt s) {
    // Each thread runs a loop that cannot run on threads. The classes of the other loops may then
    // change.
    for (;;) {
      serial_.clear();
      reductions_.clear();
      run_once_.clear();
      check(s, {}, false, true);
      if (serial_.empty()) return {s, reductions_, run_once_};
      s = serialized(s);
    }
  }

 private:
  // `divergent`: not all threads reach `s`. `once`: a block reaches it once.
  void check(const Stmt& s, std::vector<OpenLoop> open, bool divergent, bool once) {
    if (!s) return;
    if (const For* f = s.as<For>()) {
      if (is_tensorized(f->loop)) return;
      const int64_t* n = as_int(f->extent);
      if (is_thread(f->loop)) {
        if (as_thread_reduction(*f)) {
          (shuffles(*f, open, divergent) ? reductions_ : serial_).insert(f);
          if (once) run_once_.insert(f);
          return;
        }
        if (!independent(*f, open)) serial_.insert(f);
      }
      open.push_back({f->var, f->loop, n ? *n : 0});
      return check(f->body, std::move(open), divergent, once && is_block(f->loop));
    }
    if (const If* i = s.as<If>()) {
      divergent |= uses_any_thread(i->condition, open);
      once = false;
    }
    map_children(
        s,
        [&](const Stmt& c) {
          check(c, open, divergent, once);
          return c;
        },
        [](const Expr& e) { return e; });
  }

  // Whether shuffles can compute the reduction: the loop has whole warps, or each row of the block
  // is an aligned part of a warp, and all these lanes run it.
  bool shuffles(const For& f, const std::vector<OpenLoop>& open, bool divergent) const {
    const int64_t* n = as_int(f.extent);
    if (f.loop != LoopKind::ThreadX || !n || divergent) return false;
    const bool whole = *n == shape_.block[0];
    if (*n > 1 && *n < kWarp && kWarp % *n == 0) return whole && shape_.threads() % kWarp == 0;
    if (*n % kWarp != 0) return false;
    for (const OpenLoop& l : open) {
      // Under another loop over threads a row must be one whole warp, because a reduction over
      // several warps needs a barrier.
      if (is_thread(l.kind) && (*n != kWarp || !whole)) return false;
    }
    const int64_t warps = *n / kWarp;
    return warps <= kWarp || (whole && warps % kWarp == 0);
  }

  Stmt serialized(const Stmt& s) const {
    Stmt r = map_children(
        s, [&](const Stmt& c) { return serialized(c); }, [](const Expr& e) { return e; });
    if (!serial_.count(s.get()) || !r) return r;
    const For* f = r.as<For>();
    return make_for(f->var, f->extent, LoopKind::Serial, f->body);
  }

  const LaunchShape& shape_;
  std::set<const StmtNode*> serial_, reductions_, run_once_;
};

}  // namespace

ThreadLoops with_legal_thread_loops(const Stmt& s, const LaunchShape& shape) {
  return Classifier(shape).run(s);
}

}  // namespace heddle::gpu
