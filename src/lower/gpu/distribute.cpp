#include <algorithm>
#include <map>
#include <set>

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"
#include "lower/gpu/fragment_load.h"
#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/thread_reduction.h"
#include "lower/gpu/tile_nest.h"

namespace heddle::gpu {
namespace {

constexpr int64_t kWarp = 32;

struct OpenLoop {
  Var var;
  LoopKind kind;
  int64_t extent;  // the largest
};

bool uses_any_thread(const Expr& e, const std::vector<OpenLoop>& loops) {
  return std::any_of(loops.begin(), loops.end(),
                     [&](const OpenLoop& l) { return is_thread(l.kind) && uses_var(e, l.var); });
}

// One read or write of a buffer, with the loops opened since its allocation.
struct Access {
  std::vector<Expr> indices;
  bool write;
  std::vector<OpenLoop> loops;
  bool tile = false;  // by a warp together: of the whole fragment

  const OpenLoop* loop(const VarNode* v) const {
    for (const OpenLoop& l : loops) {
      if (l.var.get() == v) return &l;
    }
    return nullptr;
  }
  const OpenLoop* thread_loop(int dim) const {
    for (const OpenLoop& l : loops) {
      if (is_thread(l.kind) && grid_dim(l.kind) == dim) return &l;
    }
    return nullptr;
  }
};

// A part of an index that only says which thread: the index's digit of weight `weight` in a mixed
// radix system, of values below span / weight.
struct Digit {
  int dim;  // of the block
  int64_t weight, span;
};

// How a buffer of the block becomes one of each thread: the digits that leave each of its indices.
struct Split {
  std::vector<std::vector<Digit>> digits;  // by dimension, heaviest first
};

struct Known {  // of a buffer
  const Allocate* allocate = nullptr;
  std::vector<OpenLoop> around;  // thread loops that enclose the allocation
  std::vector<Access> accesses;
};

struct Decision {
  Buffer buffer;
  std::vector<OpenLoop> around;  // whose variables lead the index: memory of the block that each of
                                 // the enclosing threads has a part of
  Split split;
  int lane_dim = -1;  // of a fragment: this dimension and the next are the lane, and go
};

class Distributor {
 public:
  explicit Distributor(const LaunchShape& shape) : shape_(shape) {}

  Stmt run(Stmt s) {
    fragments_ = find_fragments(s);
    // A loop that cannot run on threads is run by each thread: others may then change their mind.
    for (;;) {
      serial_.clear();
      reductions_.clear();
      once_.clear();
      check(s, {}, false, true);
      if (serial_.empty()) break;
      s = serialized(s);
    }
    collect(s, {}, {});
    decide();
    return rewrite(s);
  }

 private:
  bool many(int dim) const { return shape_.block[static_cast<size_t>(dim)] > 1; }

  // ---- which thread loops cannot be, and which are reductions, run `once` by a block ----
  void check(const Stmt& s, std::vector<OpenLoop> open, bool divergent, bool once) {
    if (!s) return;
    if (const For* f = s.as<For>()) {
      if (f->loop == LoopKind::Tensorized) return;
      const int64_t* n = as_int(f->extent);
      if (is_thread(f->loop)) {
        if (std::optional<ThreadReduction> r = as_thread_reduction(*f)) {
          (shuffles(*f, open, divergent) ? reductions_ : serial_).insert(f);
          if (once) once_.insert(f);
          return;
        }
        if (!independent(*f)) serial_.insert(f);
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

  // Whether shuffles can do it: whole warps, all of whose lanes are here.
  bool shuffles(const For& f, const std::vector<OpenLoop>& open, bool divergent) const {
    const int64_t* n = as_int(f.extent);
    if (f.loop != LoopKind::ThreadX || !n || *n % kWarp != 0 || divergent) return false;
    const bool whole = *n == shape_.block[0];
    for (const OpenLoop& l : open) {
      // A barrier would divide the rows.
      if (is_thread(l.kind) && (*n != kWarp || !whole)) return false;
    }
    const int64_t warps = *n / kWarp;
    return warps <= kWarp || (whole && warps % kWarp == 0);
  }

  // Each iteration writes elements of its own, or the same values as all others.
  static bool independent(const For& f) {
    bool ok = true;
    std::set<const BufferNode*> inside;
    std::vector<VarBinding> lets;
    std::function<void(const Stmt&, bool)> go = [&](const Stmt& s, bool varies) {
      if (!s || !ok) return;
      if (const Allocate* a = s.as<Allocate>()) inside.insert(a->buffer.get());
      if (const If* i = s.as<If>()) varies |= uses_var(i->condition, f.var);
      if (const Let* l = s.as<Let>()) lets.push_back({l->var, substitute(l->value, lets)});
      if (const For* g = s.as<For>()) varies |= uses_var(g->extent, f.var);
      if (const Store* st = s.as<Store>()) {
        if (inside.count(st->buffer.get())) return;
        bool own = false;
        for (const Expr& i : st->indices) own |= uses_var(i, f.var);
        if (own) return;
        const Expr value = substitute(st->value, lets);
        const bool local = any_below(value, [](const Expr& e) {
          const Load* load = e.as<Load>();
          return load && load->buffer->scope == Scope::Local;
        });
        ok &= !varies && !local && !uses_var(value, f.var);
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
    go(f.body, false);
    return ok;
  }

  Stmt serialized(const Stmt& s) const {
    Stmt r = map_children(
        s, [&](const Stmt& c) { return serialized(c); }, [](const Expr& e) { return e; });
    if (!serial_.count(s.get()) || !r) return r;
    const For* f = r.as<For>();
    return make_for(f->var, f->extent, LoopKind::Serial, f->body);
  }

  // ---- who reads and writes what ----
  void collect(const Stmt& s, std::vector<OpenLoop> open, Ranges ranges) {
    if (!s) return;
    if (const For* f = s.as<For>()) {
      if (reductions_.count(s.get())) return collect_reduction(*f, open);
      if (f->loop == LoopKind::Tensorized) return collect_tile(*f, open);
      const Interval n = range_of(f->extent, ranges);
      ranges.set(f->var, {0, std::max<int64_t>(0, n.max - 1)});
      open.push_back({f->var, f->loop, n.max});
      collect_loads(f->extent, open);
      return collect(f->body, std::move(open), std::move(ranges));
    }
    if (const Allocate* a = s.as<Allocate>()) {
      Known& k = known_[a->buffer.get()];
      k.allocate = a;
      for (const OpenLoop& l : open) {
        if (is_thread(l.kind)) k.around.push_back(l);
      }
      depth_[a->buffer.get()] = open.size();
    }
    if (const Store* st = s.as<Store>()) note(st->buffer, st->indices, true, open);
    map_children(
        s,
        [&](const Stmt& c) {
          collect(c, open, ranges);
          return c;
        },
        [&](const Expr& e) {
          collect_loads(e, open);
          return e;
        });
  }

  void collect_loads(const Expr& e, const std::vector<OpenLoop>& open) {
    visit(e, [&](const Expr& x) {
      if (const Load* load = x.as<Load>()) note(load->buffer, load->indices, false, open);
    });
  }

  void collect_reduction(const For& f, std::vector<OpenLoop> open) {
    ThreadReduction r = *as_thread_reduction(f);
    for (const auto& c : r.components) {  // after the shuffles, all threads have it
      note(c.to, c.at, true, open);
      note(c.to, c.at, false, open);
    }
    open.push_back({f.var, f.loop, *as_int(f.extent)});
    for (const auto& c : r.components) collect_loads(c.part, open);
  }

  void collect_tile(const For& f, const std::vector<OpenLoop>& open) {
    const TileNest t = parse_tile_nest(f, fragments_);
    for (const auto* place : {&t.c, &t.a, &t.b}) {
      if (place->buffer) note(place->buffer, place->indices, place == &t.c, open, true);
    }
    if (t.kind == TileNest::Kind::Load) collect_loads(t.value, open);
  }

  void note(const Buffer& b, const std::vector<Expr>& indices, bool write,
            const std::vector<OpenLoop>& open, bool tile = false) {
    auto it = known_.find(b.get());
    if (it == known_.end()) return;
    it->second.accesses.push_back(
        {indices, write,
         std::vector<OpenLoop>(open.begin() + static_cast<long>(depth_[b.get()]), open.end()),
         tile});
  }

  // ---- where each buffer goes ----
  void decide() {
    for (const auto& [node, k] : known_) {
      const Buffer& b = k.allocate->buffer;
      if (auto f = fragments_.find(node); f != fragments_.end()) {
        decisions_[node] = in_fragment(k, f->second);
      } else if (b->scope == Scope::Local) {
        if (std::optional<Split> split = split_of(k)) {
          decisions_[node] = {resized(b, *split), {}, std::move(*split)};
        } else {
          decisions_[node] = in_shared(k);
        }
      } else if (b->scope == Scope::Shared && !k.around.empty()) {
        decisions_[node] = in_shared(k);
      }
    }
  }

  static Decision in_shared(const Known& k) {
    const Buffer& b = k.allocate->buffer;
    std::vector<Expr> shape;
    for (const OpenLoop& l : k.around) shape.push_back(Expr(l.extent));
    shape.insert(shape.end(), b->shape.begin(), b->shape.end());
    return {Buffer::make(b->name, b->dtype, std::move(shape), Scope::Shared),
            k.around,
            {std::vector<std::vector<Digit>>(b->shape.size())}};
  }

  // The registers of a fragment: each lane has the elements that PTX gives it.
  Decision in_fragment(const Known& k, Fragment f) const {
    const Buffer& b = k.allocate->buffer;
    const size_t lane = lane_dim(f, b->shape.size());
    for (const Access& a : k.accesses) {
      if (a.tile) continue;
      const OpenLoop* x = a.thread_loop(0);
      const bool own =
          x && x->extent == kWarp &&
          equal(simplify(a.indices[lane]), simplify(floordiv(x->var.expr(), Expr(4)), in(*x))) &&
          equal(simplify(a.indices[lane + 1]), simplify(floormod(x->var.expr(), Expr(4)), in(*x)));
      HEDDLE_ICHECK(own, "a lane reads elements of '" + b->name + "' that are another lane's");
    }
    Known rest = k;
    for (Access& a : rest.accesses) {
      a.indices[lane] = a.indices[lane + 1] = Expr(0);
    }
    std::optional<Split> split = split_of(rest, true);
    HEDDLE_ICHECK(split, "the warps do not agree whose the fragment '" + b->name + "' is");
    Decision d{resized(b, *split), {}, std::move(*split), static_cast<int>(lane)};
    std::vector<Expr> shape = d.buffer->shape;
    shape.erase(shape.begin() + d.lane_dim, shape.begin() + d.lane_dim + 2);
    d.buffer = Buffer::make(b->name, b->dtype, std::move(shape), Scope::Local);
    return d;
  }

  static Ranges in(const OpenLoop& l) {
    Ranges r;
    r.set(l.var, {0, l.extent - 1});
    return r;
  }

  static Buffer resized(const Buffer& b, const Split& split) {
    std::vector<Expr> shape;
    bool same = true;
    for (size_t d = 0; d < b->shape.size(); ++d) {
      int64_t n = *as_int(b->shape[d]);
      for (const Digit& g : split.digits[d]) {
        n = (n + g.span - 1) / g.span * g.weight;
        same = false;
      }
      shape.push_back(Expr(n));
    }
    return same ? b : Buffer::make(b->name, b->dtype, std::move(shape), Scope::Local);
  }

  // The digits that name threads, when all accesses agree; nullopt: threads must share the buffer.
  std::optional<Split> split_of(const Known& k, bool fragment = false) const {
    const size_t rank = k.allocate->buffer->shape.size();
    Split split;
    split.digits.resize(rank);
    bool first = true;
    // The spans are those of the widest loops.
    int64_t widest[3] = {1, 1, 1};
    for (const Access& a : k.accesses) {
      for (int dim = 0; dim < 3; ++dim) {
        if (const OpenLoop* l = a.thread_loop(dim)) widest[dim] = std::max(widest[dim], l->extent);
      }
    }
    for (const Access& a : k.accesses) {
      std::vector<std::vector<Digit>> digits(rank);
      for (size_t d = 0; d < rank; ++d) {
        if (!uses_any_thread(a.indices[d], a.loops)) continue;
        const std::optional<Affine> f = as_affine(simplify(a.indices[d]));
        if (!f) return {};
        for (const Affine::Term& t : f->terms) {
          const OpenLoop* l = a.loop(t.var.get());
          if (!l || !is_thread(l->kind)) continue;
          const int dim = grid_dim(l->kind);
          digits[d].push_back({dim, t.coefficient, t.coefficient * widest[dim]});
        }
        std::sort(digits[d].begin(), digits[d].end(),
                  [](const Digit& x, const Digit& y) { return x.weight > y.weight; });
      }
      if (first) split.digits = digits;
      first = false;
      if (!same(split.digits, digits)) return {};
    }
    for (const Access& a : k.accesses) {
      for (size_t d = 0; d < rank; ++d) {
        if (!split.digits[d].empty() && !removable(a, a.indices[d], split.digits[d])) return {};
      }
    }
    for (int dim = 0; dim < 3; ++dim) {
      if (fragment && dim == 0) continue;  // the lanes
      if (many(dim) && !each_its_own(k, split, dim)) return {};
    }
    return split;
  }

  static bool same(const std::vector<std::vector<Digit>>& a,
                   const std::vector<std::vector<Digit>>& b) {
    for (size_t d = 0; d < a.size(); ++d) {
      if (a[d].size() != b[d].size()) return false;
      for (size_t i = 0; i < a[d].size(); ++i) {
        if (a[d][i].dim != b[d][i].dim || a[d][i].weight != b[d][i].weight) return false;
      }
    }
    return true;
  }

  // No other term of the index reaches into the digits.
  static bool removable(const Access& a, const Expr& index, const std::vector<Digit>& digits) {
    const std::optional<Affine> f = as_affine(simplify(index));
    if (!f || f->constant < 0) return false;
    for (const Digit& g : digits) {
      if (g.weight <= 0) return false;
      int64_t low = f->constant % g.weight;
      if (f->constant % g.span != low) return false;
      for (const Affine::Term& t : f->terms) {
        const OpenLoop* l = a.loop(t.var.get());
        if (!l || t.coefficient <= 0 || l->extent >= (int64_t{1} << 32)) return false;
        if (t.coefficient % g.span == 0) continue;
        if (is_thread(l->kind) && t.coefficient == g.weight) continue;
        low += t.coefficient * (l->extent - 1);
      }
      if (low >= g.weight) return false;
    }
    return true;
  }

  // Along this dimension of the block, a thread that reads an element has written it.
  static bool each_its_own(const Known& k, const Split& split, int dim) {
    for (const OpenLoop& l : k.around) {
      if (grid_dim(l.kind) == dim) return true;  // already one thread's
    }
    for (const auto& digits : split.digits) {
      for (const Digit& g : digits) {
        if (g.dim == dim) return true;  // every access has the digit: see split_of
      }
    }
    int64_t narrowest = INT64_MAX, widest = 0;  // of the loops of the writes, of the reads
    bool outside = false, inside = false;
    for (const Access& a : k.accesses) {
      const OpenLoop* l = a.thread_loop(dim);
      if (a.write) {
        (l ? inside : outside) = true;
        if (l) narrowest = std::min(narrowest, l->extent);
      } else {
        widest = std::max(widest, l ? l->extent : INT64_MAX);
      }
    }
    return !inside || (!outside && widest <= narrowest);
  }

  // ---- the new program ----
  std::vector<Expr> place(const Decision& d, const std::vector<Expr>& indices) const {
    std::vector<Expr> out;
    for (const OpenLoop& l : d.around) out.push_back(l.var.expr());
    for (size_t i = 0; i < indices.size(); ++i) {
      if (d.lane_dim >= 0 &&
          (static_cast<int>(i) == d.lane_dim || static_cast<int>(i) == d.lane_dim + 1))
        continue;
      out.push_back(without(rewrite(indices[i]), d.split.digits[i]));
    }
    return out;
  }

  static Expr without(const Expr& index, const std::vector<Digit>& digits) {
    if (digits.empty()) return index;
    Affine f = *as_affine(simplify(index));
    for (const Digit& g : digits) {
      bool dropped = false;
      for (auto& t : f.terms) {
        if (t.coefficient % g.span == 0) {
          t.coefficient = t.coefficient / g.span * g.weight;
        } else if (t.coefficient == g.weight && !dropped) {
          t.coefficient = 0;
          dropped = true;
        }
      }
      f.constant = f.constant / g.span * g.weight + f.constant % g.weight;
    }
    Expr r(f.constant);
    for (const Affine::Term& t : f.terms) {
      if (t.coefficient) r = r + t.var.expr() * Expr(t.coefficient);
    }
    return simplify(r);
  }

  Expr rewrite(const Expr& e) const {
    RewriteMemo memo;
    return rewrite(e, memo);
  }
  Expr rewrite(const Expr& e, RewriteMemo& memo) const {
    return memo(e, [&](const Expr& x) { return rewrite_node(x, memo); });
  }
  Expr rewrite_node(const Expr& e, RewriteMemo& memo) const {
    if (const Load* load = e.as<Load>()) {
      auto it = decisions_.find(load->buffer.get());
      if (it != decisions_.end())
        return make_load(it->second.buffer, place(it->second, load->indices));
    }
    return map_children(e, [&](const Expr& c) { return rewrite(c, memo); });
  }

  TileOperand operand(const TileNest::Place& p) const {
    const Decision& d = decisions_.at(p.buffer.get());
    return {d.buffer, flat_index(d.buffer, place(d, p.indices))};
  }

  // All lanes of the warp, together.
  Stmt tile_op(const For& f) const {
    const TileNest t = parse_tile_nest(f, fragments_);
    Var lane("lane");
    auto warp = [&](const Stmt& s) { return make_for(lane, Expr(kWarp), LoopKind::ThreadX, s); };
    switch (t.kind) {
      case TileNest::Kind::Product:
        return warp(make_mma(operand(t.c), operand(t.a), operand(t.b), 16, 8, 8 * t.pack));
      case TileNest::Kind::Fill: {
        const Decision& d = decisions_.at(t.c.buffer.get());
        std::vector<Stmt> out;
        std::vector<Expr> at = place(d, t.c.indices);
        for (int64_t i : {0, 1}) {
          for (int64_t j : {0, 1}) {
            at[at.size() - 2] = Expr(i);
            at[at.size() - 1] = Expr(j);
            out.push_back(make_store(d.buffer, at, t.value));
          }
        }
        return warp(make_block(std::move(out)));
      }
      case TileNest::Kind::Load: {
        const Decision& d = decisions_.at(t.a.buffer.get());
        return warp(load_fragment(
            t, rewrite(t.value),
            {d.buffer, place(d, t.a.indices), static_cast<size_t>(d.lane_dim) - 1}, lane.expr()));
      }
    }
    return {};
  }

  Stmt rewrite(const Stmt& s) {
    if (!s) return s;
    if (const For* f = s.as<For>(); f && f->loop == LoopKind::Tensorized) return tile_op(*f);
    if (const For* f = s.as<For>(); f && reductions_.count(s.get())) {
      ThreadReduction r = *as_thread_reduction(*f);
      for (auto& c : r.components) {
        const Expr there = rewrite(make_load(c.to, c.at));
        c.to = there.as<Load>()->buffer;
        c.at = there.as<Load>()->indices;
        c.part = rewrite(c.part);
      }
      return emit_thread_reduction(r, *as_int(f->extent), shape_.block[0],
                                   shape_.cluster > 1 && once_.count(f));
    }
    if (const Allocate* a = s.as<Allocate>()) {
      auto it = decisions_.find(a->buffer.get());
      Stmt body = rewrite(a->body);
      if (it == decisions_.end()) return make_allocate(a->buffer, body, a->copies);
      return make_allocate(it->second.buffer, body, a->copies);
    }
    if (const Store* st = s.as<Store>()) {
      auto it = decisions_.find(st->buffer.get());
      if (it != decisions_.end()) {
        return make_store(it->second.buffer, place(it->second, st->indices), rewrite(st->value),
                          st->hint);
      }
    }
    return map_children(
        s, [&](const Stmt& c) { return rewrite(c); }, [&](const Expr& e) { return rewrite(e); });
  }

  const LaunchShape& shape_;
  Fragments fragments_;
  std::set<const StmtNode*> serial_, reductions_, once_;
  std::map<const BufferNode*, Known> known_;
  std::map<const BufferNode*, size_t> depth_;
  std::map<const BufferNode*, Decision> decisions_;
};

}  // namespace

Stmt distribute(const Stmt& s, const LaunchShape& shape) { return Distributor(shape).run(s); }

}  // namespace heddle::gpu
