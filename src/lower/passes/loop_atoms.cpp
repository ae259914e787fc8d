#include "lower/passes/loop_atoms.h"
#include "ir/replace.h"

#include <optional>

#include "ir/sizes.h"

namespace heddle::lowering {
namespace {

class Finder {
 public:
  explicit Finder(const Var& v) : v_(v) {}
  std::vector<LoopAtom> atoms;
  int nodes = 0;

  void run(const Stmt& s) {
    if (!s) return;
    ++nodes;
    if (const For* f = s.as<For>()) {
      const bool lanes = f->loop == LoopKind::Vectorized,
                 copies = lanes || f->loop == LoopKind::Unrolled;
      minima(f->extent, copies);
      Interval r = range_of(f->extent, inner_);
      inner_.set(f->var, {0, r.max == Interval::kPosInf ? r.max : std::max<int64_t>(r.max - 1, 0)});
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

  // A loop to min(n - v*32 + 31, 63) / 32 has one iteration before the last v. Loops of which
  // copies are made need a constant extent, such as that of min(9 - v*2, 2) before the last v.
  void minima(const Expr& extent, bool copies) {
    visit(extent, [&](const Expr& x) {
      const Binary* b = x.as<Binary>();
      if (!b || b->op != BinaryOp::Min || !uses_var(x, v_)) return;
      const bool first = as_int(b->a) != nullptr;
      const Expr &fixed = first ? b->a : b->b, &other = first ? b->b : b->a;
      if (!as_int(fixed)) return;
      const bool of_sizes = !sizes_in(x).empty();
      if (!of_sizes && !copies) return;
      // Longer loops keep their condition: a cut would copy all of their body.
      RewriteMemo memo;
      if (of_sizes && !is_const(simplify(replace_equal(extent, x, fixed, memo)), 1)) return;
      const size_t before = atoms.size();
      add(fixed <= other, !of_sizes);
      if (atoms.size() == before) return;
      atoms.back().copied |= !of_sizes;
      atoms.back().minimum = x;
      atoms.back().where_true = fixed;
      atoms.back().where_false = other;
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
    for (const LoopAtom& a : atoms) {
      if (a.clamp == clamp && equal(a.condition, e)) return;
    }
    Expr d = b->b - b->a;
    if (b->op == BinaryOp::Le) d = d + Expr(1);
    std::optional<Affine> f = as_affine(simplify(d));
    if (!f) return;
    LoopAtom atom{e, f->coefficient(v_), {0, 0}, Expr(f->constant), clamp};
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

}  // namespace

LoopAtoms find_loop_atoms(const Var& v, const Stmt& body) {
  Finder finder(v);
  finder.run(body);
  return {std::move(finder.atoms), finder.nodes};
}

Expr threshold(const LoopAtom& a, int64_t r) {
  Expr rest = a.outer + Expr(r);
  if (a.coefficient > 0) return floordiv(Expr(0) - rest, Expr(a.coefficient)) + Expr(1);
  return floordiv(rest - Expr(1), Expr(-a.coefficient)) + Expr(1);
}

}  // namespace heddle::lowering
