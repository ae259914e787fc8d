#include <algorithm>
#include <map>
#include <optional>

#include "heddle/ir/simplify.h"
#include "heddle/ir/sizes.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

// The numbers of rounds of a thread's part of a row in the versions of a kernel. A part with more
// rounds than the last of them does not fit the registers.
constexpr int64_t kRounds[] = {2, 8, 32};

bool uses(const std::vector<Expr>& indices, const Var& v) {
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& e) { return uses_var(e, v); });
}

// Whether the variable of the loop indexes memory of a thread.
bool indexes_registers(const For& f) {
  bool found = false;
  visit(
      f.body,
      [&](const Stmt& s) {
        const Store* st = s.as<Store>();
        found |= st && st->buffer->scope == Scope::Local && uses(st->indices, f.var);
      },
      [&](const Expr& e) {
        const Load* load = e.as<Load>();
        found |= load && load->buffer->scope == Scope::Local && uses(load->indices, f.var);
      });
  return found;
}

// Whether the value of `e` does not decrease where its sizes grow.
bool is_monotone(const Expr& e) {
  if (as_int(e) || e.kind() == ExprKind::Var) return true;
  const Binary* b = e.as<Binary>();
  if (!b) return false;
  const int64_t* c = as_int(b->b);
  switch (b->op) {
    case BinaryOp::Add:
    case BinaryOp::Min:
    case BinaryOp::Max: return is_monotone(b->a) && is_monotone(b->b);
    case BinaryOp::Sub: return c && is_monotone(b->a);
    case BinaryOp::Mul: return c && *c >= 0 && is_monotone(b->a);
    case BinaryOp::FloorDiv: return c && *c > 0 && is_monotone(b->a);
    default: return false;
  }
}

// The loops over rounds of a kernel, whose lengths all depend on one size.
struct Rounds {
  std::vector<const For*> loops;
  Var size;
  Expr most;  ///< the longest of their lengths

  bool has(const For& f) const { return std::find(loops.begin(), loops.end(), &f) != loops.end(); }
};

std::optional<Rounds> find_rounds(const Stmt& s) {
  Rounds out;
  std::vector<Var> sizes;
  bool monotone = true;
  visit(
      s,
      [&](const Stmt& x) {
        const For* f = x.as<For>();
        const bool rounds = f && (f->loop == LoopKind::Serial || f->loop == LoopKind::Unrolled) &&
                            is_symbolic(f->extent) && indexes_registers(*f);
        if (!rounds) return;
        out.loops.push_back(f);
        add_sizes(f->extent, &sizes);
        monotone &= is_monotone(f->extent);
        if (!out.most.defined() || largest_extent(f->extent) > largest_extent(out.most))
          out.most = f->extent;
      },
      [](const Expr&) {});
  if (out.loops.empty() || sizes.size() != 1 || !monotone) return std::nullopt;
  out.size = sizes[0];
  return out;
}

int64_t value_at(const Expr& e, const Var& size, int64_t value) {
  return largest_extent(simplify(substitute(e, {{size, Expr(value)}})));
}

// The largest size at which there are at most `rounds`; nullopt where there is none.
std::optional<int64_t> last_size(const Rounds& r, int64_t rounds) {
  int64_t lo = r.size->size->lo, hi = r.size->size->hi;
  if (value_at(r.most, r.size, lo) > rounds) return std::nullopt;
  while (lo < hi) {
    const int64_t middle = lo + (hi - lo + 1) / 2;
    if (value_at(r.most, r.size, middle) <= rounds) {
      lo = middle;
    } else {
      hi = middle - 1;
    }
  }
  return lo;
}

// The loops with constant lengths, for sizes up to `last`.
Stmt with_constant_rounds(const Stmt& s, const Rounds& r, int64_t last) {
  const For* f = s ? s.as<For>() : nullptr;
  const Stmt inner = map_children(
      s, [&](const Stmt& c) { return with_constant_rounds(c, r, last); },
      [](const Expr& e) { return e; });
  if (!f || !r.has(*f)) return inner;
  const For* g = inner.as<For>();
  if (!g) return inner;
  return make_for(g->var, Expr(value_at(g->extent, r.size, last)), LoopKind::Unrolled,
                  make_if(g->var.expr() < g->extent, g->body));
}

// Shrinks Local buffers to the accessed elements.
class Shrink {
 public:
  Stmt run(const Stmt& s) {
    measure(s, {});
    return rewrite(s);
  }

 private:
  void measure(const Stmt& s, const Ranges& ranges) {
    if (!s) return;
    Ranges inside = ranges;
    if (const For* f = s.as<For>()) {
      const Interval n = range_of(f->extent, ranges);
      inside.set(f->var, {0, n.max == Interval::kPosInf ? n.max : std::max<int64_t>(n.max - 1, 0)});
    }
    if (const Store* st = s.as<Store>()) note(st->buffer, st->indices, ranges);
    if (const TileOp* op = s.as<TileOp>()) {
      for (const TileOperand& o : op->operands) most_[o.buffer.get()] = Interval::kPosInf;
    }
    map_children(
        s,
        [&](const Stmt& c) {
          measure(c, inside);
          return c;
        },
        [&](const Expr& e) {
          visit(e, [&](const Expr& x) {
            if (const Load* load = x.as<Load>()) note(load->buffer, load->indices, inside);
          });
          return e;
        });
  }

  void note(const Buffer& b, const std::vector<Expr>& indices, const Ranges& ranges) {
    if (b->scope != Scope::Local) return;  // an access has one flat index
    int64_t last = Interval::kPosInf;
    if (indices.size() == 1) {
      const Ramp* ramp = indices[0].as<Ramp>();
      const int64_t* stride = ramp ? as_int(ramp->stride) : nullptr;
      const Interval at = range_of(ramp ? ramp->base : indices[0], ranges);
      if (at.max != Interval::kPosInf && (!ramp || stride))
        last = at.max + (ramp ? std::max<int64_t>(0, *stride) * (indices[0].dtype().lanes - 1) : 0);
    }
    int64_t& most = most_[b.get()];
    most = std::max(most, last);
  }

  // The buffer with the accessed elements only; the same buffer where all are accessed.
  Buffer shrunk(const Buffer& b) {
    const auto found = most_.find(b.get());
    if (found == most_.end() || found->second >= b.num_elements() - 1) return b;
    Buffer& made = made_[b.get()];
    if (!made) made = Buffer::make(b->name, b->dtype, {Expr(found->second + 1)}, b->scope);
    return made;
  }

  Stmt rewrite(const Stmt& s) {
    if (!s) return s;
    const Stmt r = map_children(
        s, [&](const Stmt& c) { return rewrite(c); },
        [&](const Expr& e) {
          RewriteMemo memo;
          return rewrite(e, memo);
        });
    if (const Allocate* a = r.as<Allocate>())
      return make_allocate(shrunk(a->buffer), a->body, a->copies);
    if (const Store* st = r.as<Store>())
      return make_store(shrunk(st->buffer), st->indices, st->value, st->hint);
    return r;
  }

  Expr rewrite(const Expr& e, RewriteMemo& memo) {
    return memo(e, [&](const Expr& x) {
      const Expr r = map_children(x, [&](const Expr& c) { return rewrite(c, memo); });
      const Load* load = r.as<Load>();
      return load ? make_load(shrunk(load->buffer), load->indices) : r;
    });
  }

  std::map<const BufferNode*, int64_t> most_;  ///< the last element that is accessed
  std::map<const BufferNode*, Buffer> made_;
};

}  // namespace

Stmt keep_rounds_in_registers(const Stmt& s) {
  const std::optional<Rounds> r = s ? find_rounds(s) : std::nullopt;
  if (!r) return s;
  std::vector<int64_t> lasts;
  for (const int64_t rounds : kRounds) {
    const std::optional<int64_t> last = last_size(*r, rounds);
    if (last && (lasts.empty() || *last > lasts.back())) lasts.push_back(*last);
  }
  Stmt out = s;
  for (size_t i = lasts.size(); i-- > 0;) {
    const Stmt version = Shrink().run(with_constant_rounds(s, *r, lasts[i]));
    out = lasts[i] == r->size->size->hi ? version
                                        : make_if(r->size.expr() <= Expr(lasts[i]), version, out);
  }
  return out;
}

}  // namespace heddle::gpu
