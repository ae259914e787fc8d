#include <algorithm>
#include <optional>
#include <set>

#include "heddle/ir/simplify.h"
#include "lower/fused_parts.h"
#include "lower/passes.h"

namespace heddle {
namespace {

constexpr int kMaxSegments = 4;
constexpr int kMaxNodes = 20000;  // largest body to copy

// One comparison inside a loop over v, as  coefficient*v + inner + outer > 0.
struct Atom {
  Expr condition;
  int64_t coefficient = 0;
  Interval inner;       // range of the part that varies inside the loop
  Expr outer;           // the part that is fixed while the loop runs
  bool clamp = false;   // the arm of a min or max in an index, not a condition
  bool copied = false;  // it varies over a loop of which copies are made (unrolled, vectorized)
};

class Finder {
 public:
  explicit Finder(const Var& v) : v_(v) {}
  std::vector<Atom> atoms;
  int nodes = 0;

  void run(const Stmt& s) {
    if (!s) return;
    ++nodes;
    if (const For* f = s.as<For>()) {
      Interval r = range_of(f->extent, inner_);
      inner_.set(f->var, {0, r.max == Interval::kPosInf ? r.max : std::max<int64_t>(r.max - 1, 0)});
      const bool lanes = f->loop == LoopKind::Vectorized,
                 copies = lanes || f->loop == LoopKind::Unrolled;
      if (lanes) lanes_.push_back(f->var);
      if (copies) copies_.push_back(f->var);
      run(f->body);
      if (lanes) lanes_.pop_back();
      if (copies) copies_.pop_back();
      inner_.erase(f->var);
      return;
    }
    if (const Let* l = s.as<Let>()) inner_.set(l->var, {});
    if (const If* i = s.as<If>()) conjuncts(i->condition);
    for_each(s);
  }

 private:
  void for_each(const Stmt& s) {
    map_children(
        s,
        [&](const Stmt& c) {
          run(c);
          return c;
        },
        [&](const Expr& e) {
          look(e);
          return e;
        });
  }

  static bool has_load(const Expr& e) {
    return any_below(e, [](const Expr& x) { return x.kind() == ExprKind::Load; });
  }

  void look(const Expr& e) {
    visit(e, [&](const Expr& x) {
      ++nodes;
      const Select* s = x.as<Select>();
      if (s && (has_load(s->on_true) || has_load(s->on_false))) conjuncts(s->condition);
      const Load* load = x.as<Load>();
      for (size_t i = 0; load && i < load->indices.size(); ++i) clamps(load->indices[i]);
    });
  }

  // Where the clamp of a vector index has no effect, the lanes are contiguous.
  void clamps(const Expr& index) {
    visit(index, [&](const Expr& x) {
      const Binary* b = x.as<Binary>();
      if (!b || (b->op != BinaryOp::Min && b->op != BinaryOp::Max)) return;
      for (const Var& lane : lanes_) {
        if (uses_var(x, lane)) return add(b->a <= b->b, true);
      }
    });
  }

  void conjuncts(const Expr& e) {
    SeenNodes seen;
    conjuncts(e, seen);
  }
  void conjuncts(const Expr& e, SeenNodes& seen) {
    if (!seen.first(e)) return;
    const Binary* b = e.as<Binary>();
    if (b && (b->op == BinaryOp::And || b->op == BinaryOp::Or)) {
      conjuncts(b->a, seen);
      conjuncts(b->b, seen);
      return;
    }
    add(e, false);
  }

  void add(const Expr& e, bool clamp) {
    const Binary* b = e.as<Binary>();
    if (!b || e.dtype().lanes != 1 || (b->op != BinaryOp::Lt && b->op != BinaryOp::Le)) return;
    if (b->a.dtype() != i64 || !uses_var(e, v_)) return;
    for (const Atom& a : atoms) {
      if (a.clamp == clamp && equal(a.condition, e)) return;
    }
    Expr d = b->b - b->a;
    if (b->op == BinaryOp::Le) d = d + Expr(1);
    std::optional<Affine> f = as_affine(simplify(d));
    if (!f) return;
    Atom atom{e, f->coefficient(v_), {0, 0}, Expr(f->constant), clamp};
    for (const Affine::Term& t : f->terms) {
      for (const Var& copy : copies_) atom.copied |= t.var.same_as(copy);
    }
    Expr inner(0);
    for (const Affine::Term& t : f->terms) {
      if (t.var.same_as(v_)) continue;
      Expr x = t.var.expr() * Expr(t.coefficient);
      (inner_.known(t.var.get()) ? inner : atom.outer) =
          (inner_.known(t.var.get()) ? inner : atom.outer) + x;
    }
    atom.inner = range_of(inner, inner_);
    if (atom.coefficient == 0 || !atom.inner.bounded()) return;
    atoms.push_back(std::move(atom));
  }

  Var v_;
  Ranges inner_;
  std::vector<Var> lanes_, copies_;  // of vectorized loops; of vectorized and unrolled loops
};

// The first v after the change of the atom for inner value r: from there on it holds (rising) or
// does not hold (falling).
Expr threshold(const Atom& a, int64_t r) {
  Expr rest = a.outer + Expr(r);
  if (a.coefficient > 0) return floordiv(Expr(0) - rest, Expr(a.coefficient)) + Expr(1);
  return floordiv(rest - Expr(1), Expr(-a.coefficient)) + Expr(1);
}

Expr replace(const Expr& e, const Expr& from, const Expr& to, RewriteMemo& memo) {
  return memo(e, [&](const Expr& x) {
    if (equal(x, from)) return to;
    return map_children(x, [&](const Expr& c) { return replace(c, from, to, memo); });
  });
}
Stmt replace(const Stmt& s, const Expr& from, const Expr& to) {
  RewriteMemo memo;
  return map_children(
      s, [&](const Stmt& c) { return replace(c, from, to); },
      [&](const Expr& e) { return replace(e, from, to, memo); });
}

Stmt segment(const For& f, const Expr& from, const Expr& length, const Stmt& body) {
  Var v(f.var->name);
  return make_for(v, length, f.loop, substitute(body, {{f.var, v.expr() + from}}));
}

Stmt partition(const Stmt& s, const Ranges& ranges);

// The places where a variable in [0, n) changes a condition.
std::set<int64_t> constant_cuts(const std::vector<Atom>& atoms, int64_t n) {
  std::set<int64_t> cuts, with_clamps;
  for (const Atom& a : atoms) {
    for (int64_t r : {a.inner.min, a.inner.max}) {
      const Expr t = simplify(threshold(a, r));
      const int64_t* c = as_int(t);
      if (!c || *c <= 0 || *c >= n) continue;
      with_clamps.insert(*c);
      if (!a.clamp) cuts.insert(*c);
    }
  }
  return static_cast<int>(with_clamps.size()) < kMaxSegments ? with_clamps : cuts;
}

Stmt partition_loop(const For& f, const Ranges& ranges) {
  Finder finder(f.var);
  finder.run(f.body);
  const int64_t* n = as_int(f.extent);
  if (finder.atoms.empty() || finder.nodes > kMaxNodes) return {};
  if (n) {
    std::set<int64_t> cuts = constant_cuts(finder.atoms, *n);
    if (!cuts.empty() && static_cast<int>(cuts.size()) < kMaxSegments) {
      std::vector<Stmt> out;
      int64_t from = 0;
      cuts.insert(*n);
      for (int64_t to : cuts) {
        Stmt part = simplify(segment(f, Expr(from), Expr(to - from), f.body), ranges);
        out.push_back(partition(part, ranges));
        from = to;
      }
      return make_block(std::move(out));
    }
    if (!cuts.empty()) return {};
  }
  // A cut that depends on outer loops is exact where nothing varies inside. Neither part contains
  // the comparison any more, so the recursion ends.
  for (const Atom& a : finder.atoms) {
    if (a.clamp || !a.inner.is_point()) continue;
    Expr at = simplify(threshold(a, a.inner.min), ranges);
    if (as_int(at)) continue;
    Expr mid = simplify(max(Expr(0), min(at, f.extent)), ranges);
    Expr first(a.coefficient < 0), second(a.coefficient > 0);
    std::vector<Stmt> out;
    out.push_back(segment(f, Expr(0), mid, replace(f.body, a.condition, first)));
    out.push_back(segment(f, mid, f.extent - mid, replace(f.body, a.condition, second)));
    Stmt both = simplify(make_block(std::move(out)), ranges);
    return partition(both, ranges);
  }
  return {};
}

// A copy of `body` for each range of the part in which the same conditions hold, with `most_nodes`
// nodes in all. Conditions that only inner serial loops decide are left to those loops.
Stmt branch(const Stmt& body, const std::vector<FusedParts::Part>& parts, size_t next,
            const Ranges& ranges, int most_nodes) {
  if (next == parts.size()) return partition(body, ranges);
  const auto& [part, of, extent] = parts[next];
  Finder finder(part);
  finder.run(body);
  std::erase_if(finder.atoms, [](const Atom& a) { return !a.copied; });
  std::set<int64_t> cuts = constant_cuts(finder.atoms, extent);
  const int copies = static_cast<int>(cuts.size()) + 1;
  if (copies == 1 || copies > kMaxSegments || finder.nodes * copies > most_nodes)
    return branch(body, parts, next + 1, ranges, most_nodes);
  cuts.insert(extent);
  Stmt out;
  for (auto to = cuts.rbegin(); to != cuts.rend(); ++to) {
    const auto below = std::next(to);
    Ranges here = ranges;
    here.set(part, {below == cuts.rend() ? 0 : *below, *to - 1});
    const Stmt copy = branch(simplify(body, here), parts, next + 1, here, most_nodes / copies);
    out = out ? make_if(part.expr() < Expr(*to), copy, out) : copy;
  }
  return out;
}

// Each of the fused loops could have been cut on its own.
Stmt partition_fused(const For& f, const Ranges& ranges) {
  const int64_t* n = as_int(f.extent);
  if (!n) return {};
  FusedParts fused(f.var, *n);
  const Stmt body = fused.take_out(f.body);
  const std::vector<FusedParts::Part> parts = fused.parts();
  if (parts.empty()) return {};
  Ranges inside = ranges;
  inside.set(f.var, {0, *n - 1});
  for (const FusedParts::Part& p : parts) inside.set(p.var, {0, p.extent - 1});
  return make_for(f.var, f.extent, f.loop,
                  fused.put_back(branch(body, parts, 0, inside, kMaxNodes)));
}

// Loops around operations of a GPU's matrix unit are not cut. Their tiles are always full, with
// zeros beyond the ends, and two loops would each need tiles of their own in shared memory.
bool feeds_matrix_unit(const Stmt& s) {
  bool found = false, on_gpu = false;
  visit(
      s,
      [&](const Stmt& x) {
        const For* f = x.as<For>();
        found |= f && f->loop == LoopKind::Tensorized;
        on_gpu |= f && is_thread(f->loop);
      },
      [](const Expr&) {});
  return found && on_gpu;
}

Stmt partition(const Stmt& s, const Ranges& ranges) {
  if (!s) return s;
  const For* f = s.as<For>();
  // The lanes of a warp share the rows and columns of fragments, so the loop stays as it is.
  if (f && f->loop == LoopKind::Tensorized) return s;
  const bool serial = f && f->loop == LoopKind::Serial,
             parallel = f && f->loop == LoopKind::Parallel;
  if ((serial || parallel) && !feeds_matrix_unit(f->body)) {
    if (Stmt r = serial ? partition_loop(*f, ranges) : Stmt()) return r;
    if (Stmt r = partition_fused(*f, ranges)) return r;
  }
  Ranges inside = ranges;
  if (f) {
    Interval r = range_of(f->extent, ranges);
    inside.set(f->var, {0, r.max == Interval::kPosInf ? r.max : std::max<int64_t>(r.max - 1, 0)});
  }
  return map_children(
      s, [&](const Stmt& c) { return partition(c, inside); }, [](const Expr& e) { return e; });
}

}  // namespace

Stmt loop_partition(const Stmt& s) { return partition(s, {}); }

}  // namespace heddle
