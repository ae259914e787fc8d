#include <algorithm>
#include <map>
#include <optional>

#include "heddle/ir/simplify.h"
#include "ir/sizes.h"
#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/threads/thread_loops.h"

namespace heddle::gpu {
namespace {

// The numbers of rounds of a thread's part of a row in the versions of a kernel, each one more than
// rules ask for, because rows that begin anywhere may take one more. A part with more rounds than
// the last of them does not fit the registers. Where several warps share a row, a rule gives each
// thread four vectors, and more would leave registers for fewer blocks.
constexpr int64_t kRounds[] = {3, 5, 9};
constexpr int64_t kMostOfBlock = 5;
constexpr int64_t kMostElements = 40;  // of a thread
// The same where each thread has a row of its own: a short row takes little more than its loads, so
// the shortest have versions of exactly their length.
constexpr int64_t kRoundsOfOwnRow[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32};

int64_t threads_of_row(const Stmt& s) {
  int64_t threads = 1;
  visit(
      s,
      [&](const Stmt& x) {
        const For* f = x.as<For>();
        const int64_t* n = f && f->loop == LoopKind::ThreadX ? as_int(f->extent) : nullptr;
        if (n) threads = std::max(threads, *n);
      },
      [](const Expr&) {});
  return threads;
}

bool uses(const std::vector<Expr>& indices, const Var& v) {
  return std::any_of(indices.begin(), indices.end(), [&](const Expr& e) { return uses_var(e, v); });
}

// The elements of a thread's memory that an iteration of the loop takes; 0 where its variable does
// not index such memory.
int64_t elements_of_round(const For& f) {
  int64_t most = 0;
  const auto note = [&](const Buffer& b, const std::vector<Expr>& indices) {
    if (b->scope != Scope::Local || !uses(indices, f.var)) return;
    const Ramp* ramp = indices[0].as<Ramp>();
    const std::optional<Affine> at = as_affine(ramp ? ramp->base : indices[0]);
    most = std::max(most, at ? std::abs(at->coefficient(f.var)) : 1);
  };
  visit(
      f.body,
      [&](const Stmt& s) {
        if (const Store* st = s.as<Store>()) note(st->buffer, st->indices);
      },
      [&](const Expr& e) {
        if (const Load* load = e.as<Load>()) note(load->buffer, load->indices);
      });
  return most;
}

// At least `e`, and without remainders: a row may begin anywhere.
Expr without_remainders(const Expr& e) {
  const Binary* b = e.as<Binary>();
  if (!b) return e;
  const int64_t* c = as_int(b->b);
  switch (b->op) {
    case BinaryOp::FloorMod: return c && *c > 0 ? Expr(*c - 1) : e;
    case BinaryOp::Add: return without_remainders(b->a) + without_remainders(b->b);
    case BinaryOp::FloorDiv: return c && *c > 0 ? floordiv(without_remainders(b->a), b->b) : e;
    default: return e;
  }
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

Expr most_rounds(const For& f) { return simplify(without_remainders(f.extent)); }

// The loops over rounds of a kernel, whose lengths all depend on one size.
struct Rounds {
  std::vector<const For*> loops;
  Var size;
  int64_t elements = 0;  ///< that a round takes of a thread's memory
  Expr most;             ///< the longest of their lengths
  bool own_row = false;  ///< each thread has a row of its own, an element in each round

  bool has(const For& f) const { return std::find(loops.begin(), loops.end(), &f) != loops.end(); }
};

// Adds the loops over a thread's own row that keep nothing, such as that of its maximum. Each load
// would otherwise wait for the one before.
void add_passes(const Stmt& s, Rounds* rounds) {
  visit(
      s,
      [&](const Stmt& x) {
        const For* f = x.as<For>();
        const bool serial = f && (f->loop == LoopKind::Serial || f->loop == LoopKind::Unrolled);
        if (serial && !rounds->has(*f) && equal(most_rounds(*f), rounds->most))
          rounds->loops.push_back(f);
      },
      [](const Expr&) {});
}

std::optional<Rounds> find_rounds(const Stmt& s) {
  Rounds out;
  std::vector<Var> sizes;
  bool monotone = true;
  visit(
      s,
      [&](const Stmt& x) {
        const For* f = x.as<For>();
        const bool serial = f && (f->loop == LoopKind::Serial || f->loop == LoopKind::Unrolled);
        if (!serial) return;
        const Expr extent = most_rounds(*f);
        const int64_t elements = is_symbolic(extent) ? elements_of_round(*f) : 0;
        if (elements == 0) return;
        out.elements = std::max(out.elements, elements);
        out.loops.push_back(f);
        add_sizes(extent, &sizes);
        monotone &= is_monotone(extent);
        if (!out.most.defined() || largest_extent(extent) > largest_extent(out.most))
          out.most = extent;
      },
      [](const Expr&) {});
  if (out.loops.empty() || sizes.size() != 1 || !monotone) return std::nullopt;
  out.size = sizes[0];
  out.own_row = out.elements == 1 && out.most.kind() == ExprKind::Var;
  if (out.own_row) add_passes(s, &out);
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
  return make_for(g->var, Expr(value_at(most_rounds(*g), r.size, last)), LoopKind::Unrolled,
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

// The kernel for sizes up to `last`, as versions for fewer rounds and more.
struct Versions {
  Var size;
  int64_t last = 0;
  Stmt kernel;
};

// The largest sizes of the versions, in order.
std::vector<int64_t> last_sizes(const Stmt& s, const Rounds& r) {
  std::vector<int64_t> rounds(std::begin(kRounds), std::end(kRounds));
  if (r.own_row) {
    rounds.assign(std::begin(kRoundsOfOwnRow), std::end(kRoundsOfOwnRow));
  } else if (threads_of_row(s) > kWarp) {
    std::erase_if(rounds, [](int64_t n) { return n > kMostOfBlock; });
  }
  std::vector<int64_t> lasts;
  for (const int64_t n : rounds) {
    if (n * r.elements > kMostElements) continue;
    const std::optional<int64_t> last = last_size(r, n);
    if (last && (lasts.empty() || *last > lasts.back())) lasts.push_back(*last);
  }
  return lasts;
}

// The kernel for sizes from `first` to `last`.
Stmt version_for(const Stmt& s, const Rounds& r, int64_t first, int64_t last) {
  Stmt version = with_constant_rounds(s, r, last);
  if (first == last && r.own_row) version = simplify(substitute(version, {{r.size, Expr(last)}}));
  return Shrink().run(version);
}

std::optional<Versions> versions_of(const Stmt& s) {
  const std::optional<Rounds> r = find_rounds(s);
  if (!r) return std::nullopt;
  const std::vector<int64_t> lasts = last_sizes(s, *r);
  if (lasts.empty()) return std::nullopt;
  Versions out{r->size, lasts.back(), {}};
  for (size_t i = lasts.size(); i-- > 0;) {
    const int64_t first = i == 0 ? r->size->size->lo : lasts[i - 1] + 1;
    const Stmt version = version_for(s, *r, first, lasts[i]);
    out.kernel =
        out.kernel ? make_if(r->size.expr() <= Expr(lasts[i]), version, out.kernel) : version;
  }
  return out;
}

}  // namespace

Stmt keep_rounds_in_registers(const Stmt& s) {
  if (!s) return s;
  // A kernel for multiples (align_rows): for other multiples the kernel for all sizes runs.
  const If* i = s.as<If>();
  const Let* l = i ? i->then_body.as<Let>() : nullptr;
  if (l) {
    const std::optional<Versions> v = versions_of(l->body);
    const Stmt others = keep_rounds_in_registers(i->else_body);
    if (!v) return make_if(i->condition, i->then_body, others);
    const Expr fits = simplify(i->condition && l->value <= Expr(v->last));
    return make_if(fits, make_let(l->var, l->value, v->kernel), others);
  }
  const std::optional<Versions> v = versions_of(s);
  if (!v) return s;
  if (v->last == v->size->size->hi) return v->kernel;
  return make_if(v->size.expr() <= Expr(v->last), v->kernel, s);
}

}  // namespace heddle::gpu
