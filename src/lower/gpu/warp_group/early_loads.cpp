#include "lower/gpu/warp_group/early_loads.h"

#include <algorithm>
#include <optional>

#include "heddle/ir/simplify.h"

namespace heddle::gpu {
namespace {

bool is_in_memory(const Buffer& b) { return b->scope != Scope::Local && b->scope != Scope::Shared; }

// A store in loops, and nothing else.
struct Nest {
  std::vector<const For*> loops;
  const Store* store = nullptr;
};

std::optional<Nest> nest_of(const Stmt& s) {
  Nest n;
  Stmt at = s;
  while (const For* f = at.as<For>()) {
    if (!is_thread(f->loop) && (f->loop != LoopKind::Unrolled || !as_int(f->extent))) return {};
    n.loops.push_back(f);
    at = f->body;
  }
  n.store = at.as<Store>();
  return n.store && n.store->buffer->scope == Scope::Local ? std::optional(n) : std::nullopt;
}

class Taker {
 public:
  Taker(const Var& tile, int64_t most, EarlyLoads* out) : tile_(tile), left_(most), out_(*out) {}

  Stmt use(const Stmt& s) {
    const std::optional<Nest> n = nest_of(s);
    if (!n) return s;
    std::vector<std::pair<Expr, Expr>> taken;  // loads and what replaces them
    const auto take_load = [&](const Expr& e) {
      const Load* load = e.as<Load>();
      const auto is_known = [&](const auto& t) { return equal(t.first, e); };
      if (!load || !is_in_memory(load->buffer) || std::ranges::any_of(taken, is_known) ||
          has_load(load->indices[0]))
        return;
      if (const std::optional<Expr> at = take(e, *load, *n)) taken.emplace_back(e, *at);
    };
    SeenNodes seen;
    visit_unguarded(n->store->value, take_load, seen);
    if (taken.empty()) return s;
    RewriteMemo memo;
    Stmt out = make_store(n->store->buffer, n->store->indices,
                          replaced(n->store->value, taken, memo), n->store->hint);
    return in_loops(n->loops, out);
  }

 private:
  // Visits what is computed in any case. A load that a condition guards may be outside of its tensor without it.
  static void visit_unguarded(const Expr& e, FunctionRef<void(const Expr&)> each, SeenNodes& seen) {
    if (!seen.first(e)) return;
    each(e);
    const Select* select = e.as<Select>();
    const Binary* both = e.as<Binary>();
    if (select) return visit_unguarded(select->condition, each, seen);
    if (both && (both->op == BinaryOp::And || both->op == BinaryOp::Or))
      return visit_unguarded(both->a, each, seen);
    for_each_child(e, [&](const Expr& c) { visit_unguarded(c, each, seen); });
  }
  static bool has_load(const Expr& e) {
    return any_below(e, [](const Expr& x) { return x.kind() == ExprKind::Load; });
  }
  static Stmt in_loops(const std::vector<const For*>& loops, Stmt s) {
    for (auto f = loops.rbegin(); f != loops.rend(); ++f)
      s = make_for((*f)->var, (*f)->extent, (*f)->loop, s);
    return s;
  }
  static Expr replaced(const Expr& e, const std::vector<std::pair<Expr, Expr>>& taken,
                       RewriteMemo& memo) {
    return memo(e, [&](const Expr& x) {
      for (const auto& [from, to] : taken) {
        if (equal(from, x)) return to;
      }
      return map_children(x, [&](const Expr& c) { return replaced(c, taken, memo); });
    });
  }

  // The register that holds the load, filled by a nest of the loops that its index uses.
  std::optional<Expr> take(const Expr& e, const Load& load, const Nest& n) {
    const int lanes = e.dtype().lanes;
    int64_t elements = lanes;
    bool in_common = lanes == 1;
    Expr at(0);
    std::vector<const For*> loops;
    for (const For* f : n.loops) {
      const bool uses = uses_var(load.indices[0], f->var);
      if (is_thread(f->loop) || uses) loops.push_back(f);
      in_common = in_common || (!uses && !is_thread(f->loop));
      if (is_thread(f->loop) || !uses) continue;
      const int64_t extent = *as_int(f->extent);
      at = at * Expr(extent) + f->var.expr();
      elements *= extent;
    }
    if (!in_common || elements > left_) return {};
    left_ -= elements;
    const Buffer registers = Buffer::make(load.buffer->name + ".early", load.buffer->dtype,
                                          {Expr(elements)}, Scope::Local);
    const Expr first = simplify(at * Expr(int64_t{lanes}));
    const Expr place = lanes > 1 ? make_ramp(first, Expr(1), lanes) : first;
    out_.registers.push_back(registers);
    (uses_var(load.indices[0], tile_) ? out_.each : out_.once)
        .push_back(in_loops(loops, make_store(registers, {place}, e)));
    return make_load(registers, {place});
  }

  const Var& tile_;
  int64_t left_;
  EarlyLoads& out_;
};

}  // namespace

int64_t EarlyLoads::elements() const {
  int64_t n = 0;
  for (const Buffer& b : registers) n += b.num_elements();
  return n;
}

EarlyLoads early_loads(const std::vector<Stmt>& uses, const Var& tile, int64_t most) {
  EarlyLoads out;
  Taker taker(tile, most, &out);
  for (const Stmt& s : uses) out.uses.push_back(taker.use(s));
  return out;
}

}  // namespace heddle::gpu
