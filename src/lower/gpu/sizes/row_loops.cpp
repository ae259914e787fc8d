#include "lower/gpu/sizes/row_loops.h"

#include <algorithm>
#include <cmath>

#include "heddle/ir/simplify.h"
#include "ir/conjuncts.h"
#include "ir/sizes.h"

namespace heddle::gpu {
namespace {

// The condition of the lanes that are part of the row; undefined where there is none, or several.
Expr row_condition(const For& f) {
  Expr found;
  bool one = true;
  visit(
      f.body, [](const Stmt&) {},
      [&](const Expr& e) {
        const Binary* b = e.as<Binary>();
        if (!b || b->op != BinaryOp::Lt || !uses_var(e, f.var)) return;
        one &= !found.defined() || equal(found, e);
        found = e;
      });
  return one && found.defined() && is_symbolic(found.as<Binary>()->b) ? found : Expr();
}

bool uses_position(const RowLoop& r, const Expr& e) {
  return any_below(r.position, [&](const Expr& x) {
    return x.kind() == ExprKind::Var && !x.as<VarNode>()->size && uses_var(e, Var::from(x));
  });
}

// Whether all that the guards say of positions is that they are of the row.
bool guards_rows_only(const RowLoop& r) {
  return std::all_of(r.guards.begin(), r.guards.end(), [&](const Expr& g) {
    return is_below_length(g, r) || (!uses_position(r, g) && !uses_var(g, r.loop->var));
  });
}

// Whether `x op e` is x.
bool is_identity(BinaryOp op, const Expr& e) {
  const FloatImm* f = e.as<FloatImm>();
  if (op == BinaryOp::Add) return is_const(e, 0);
  if (!f || !std::isinf(f->value)) return false;
  return (op == BinaryOp::Max && f->value < 0) || (op == BinaryOp::Min && f->value > 0);
}

// x = x + select(in_row, y, 0)  -->  if (in_row) x = x + y
void leave_out_identity(RowLoop& r) {
  const Store& st = r.store();
  const Binary* b = st.value.as<Binary>();
  const Select* s = b ? b->b.as<Select>() : nullptr;
  const Load* x = b ? b->a.as<Load>() : nullptr;
  const bool of_itself =
      x && x->buffer.get() == st.buffer.get() && s && equal(x->indices[0], st.indices[0]);
  if (!of_itself || !equal(s->condition, r.in_row) || !is_identity(b->op, s->on_false)) return;
  r.stored = make_store(st.buffer, st.indices, make_binary(b->op, b->a, s->on_true), st.hint);
  r.guarded = true;
}

std::optional<RowLoop> as_row_loop(const For& f) {
  if (f.loop != LoopKind::Vectorized || !as_int(f.extent)) return std::nullopt;
  RowLoop r;
  r.loop = &f;
  r.stored = f.body;
  while (const If* i = r.stored.as<If>()) {
    if (i->else_body) return std::nullopt;
    add_conjuncts(i->condition, r.guards);
    r.stored = i->then_body;
  }
  if (!r.stored.as<Store>()) return std::nullopt;
  r.in_row = row_condition(f);
  if (!r.in_row.defined()) return std::nullopt;
  r.position = simplify(r.in_row.as<Binary>()->a - f.var.expr());
  if (uses_var(r.position, f.var) || !guards_rows_only(r)) return std::nullopt;
  r.guarded = std::any_of(r.guards.begin(), r.guards.end(),
                          [&](const Expr& g) { return equal(g, r.in_row); });
  leave_out_identity(r);
  return r;
}

void collect(const Stmt& s, std::vector<const For*>& around, std::vector<RowLoop>* out) {
  if (!s) return;
  const For* f = s.as<For>();
  if (f) {
    if (std::optional<RowLoop> r = as_row_loop(*f)) {
      r->around = around;
      return out->push_back(std::move(*r));
    }
    around.push_back(f);
  }
  map_children(
      s,
      [&](const Stmt& c) {
        collect(c, around, out);
        return c;
      },
      [](const Expr& e) { return e; });
  if (f) around.pop_back();
}

// The start of the rows that are stored, or else of those that are loaded. Undefined where other
// elements of memory are accessed.
Expr find_start(const std::vector<RowLoop>& loops) {
  Expr found;
  bool rows_only = true;
  for (const RowLoop& r : loops) {
    r.visit_accesses([&](const Buffer& b, const Expr& index) {
      const bool row = uses_var(index, r.loop->var) || uses_position(r, index);
      if (b->scope == Scope::Local || !row) return;
      const Expr start = r.start_of(index);
      rows_only &= start.defined();
      const bool stored = b.get() == r.store().buffer.get();
      if (!found.defined() || stored || is_const(found, 0)) found = start;
    });
  }
  return rows_only ? found : Expr();
}

// Whether threads and rounds take each position up to the length once, in the order lane, thread,
// round, also for a row that is longer by a vector. Adds the loop over rounds.
bool add_rounds(const RowLoop& r, std::set<const For*>* rounds) {
  std::optional<Affine> position = as_affine(r.position);
  if (!position || position->constant != 0) return false;
  auto& terms = position->terms;
  std::sort(terms.begin(), terms.end(),
            [](const auto& a, const auto& b) { return a.coefficient < b.coefficient; });
  int64_t covered = r.lanes();
  const For* last = nullptr;
  for (const Affine::Term& t : terms) {
    const auto at = std::find_if(r.around.begin(), r.around.end(),
                                 [&](const For* f) { return f->var.same_as(t.var); });
    if (at == r.around.end() || t.coefficient != covered) return false;
    const For& f = **at;
    if (is_thread(f.loop) && f.loop != LoopKind::ThreadX) return false;
    const bool serial = f.loop == LoopKind::Serial || f.loop == LoopKind::Unrolled;
    if (const int64_t* n = as_int(f.extent)) {
      covered *= *n;
      last = serial ? &f : nullptr;
      continue;
    }
    const Expr whole = floordiv(r.length() + Expr(covered - 1), Expr(covered));
    if (&t != &terms.back() || !serial || !equal(simplify(whole), simplify(f.extent))) return false;
    rounds->insert(&f);
    return true;
  }
  const int64_t room = covered - largest_extent(r.length());
  // All rounds of the longest row are full, so a row that is shifted takes one more.
  const bool fits = room >= r.lanes() - 1, more = room >= 0 && !fits && last;
  if (more) rounds->insert(last);
  return fits || more;
}

// Whether each statement below is a row loop, possibly in other loops.
bool only_row_loops(const Stmt& s, const Rows& rows) {
  if (const For* f = s.as<For>()) return rows.of(*f) || only_row_loops(f->body, rows);
  const Block* b = s.as<Block>();
  return b && std::all_of(b->stmts.begin(), b->stmts.end(),
                          [&](const Stmt& c) { return only_row_loops(c, rows); });
}

// The buffers that statements other than row loops use.
struct Elsewhere {
  std::set<const BufferNode*> used;
  std::set<const BufferNode*> by_thread;  ///< stored by loops over the threads of a row
};

void collect_elsewhere(const Stmt& s, const Rows& rows, bool by_thread, Elsewhere* out) {
  const For* f = s ? s.as<For>() : nullptr;
  if (!s || (f && rows.of(*f))) return;
  by_thread |= f && f->loop == LoopKind::ThreadX;
  if (const Store* st = s.as<Store>()) {
    out->used.insert(st->buffer.get());
    if (by_thread) out->by_thread.insert(st->buffer.get());
  }
  map_children(
      s,
      [&](const Stmt& c) {
        collect_elsewhere(c, rows, by_thread, out);
        return c;
      },
      [&](const Expr& e) {
        visit(e, [&](const Expr& y) {
          if (const Load* load = y.as<Load>()) out->used.insert(load->buffer.get());
        });
        return e;
      });
}

// Whether the value depends on the place of its element otherwise than by loads and the condition.
bool counts_places(const RowLoop& r, const Expr& value) {
  if (value.kind() == ExprKind::Load || equal(value, r.in_row)) return false;
  if (value.kind() == ExprKind::Var) return uses_var(value, r.loop->var) || uses_position(r, value);
  bool counts = false;
  for_each_child(value, [&](const Expr& c) { counts |= counts_places(r, c); });
  return counts;
}

// Whether what threads keep of a row has the same place in all loops. Sums of several elements may
// have their parts anywhere.
bool same_places(const Stmt& s, const Rows& rows) {
  Elsewhere elsewhere;
  collect_elsewhere(s, rows, false, &elsewhere);
  bool same = true;
  for (const RowLoop& r : rows.loops) {
    const BufferNode* to = r.store().buffer.get();
    same &= !counts_places(r, r.store().value) && !(r.is_kept() && elsewhere.used.count(to));
    r.visit_accesses([&](const Buffer& b, const Expr& index) {
      if (b->scope != Scope::Local) return;
      bool own = uses_var(index, r.loop->var);
      for (const For* f : r.around) {
        if (!rows.rounds.count(f) || !uses_var(index, f->var)) continue;
        const Expr place = f->var.expr() * Expr(r.lanes()) + r.loop->var.expr();
        same &= is_const(simplify(index - place), 0);
        own = true;
      }
      const bool sum = b.get() == to && r.is_sum();
      same &= sum || !(own ? elsewhere.used : elsewhere.by_thread).count(b.get());
    });
  }
  return same;
}

}  // namespace

bool is_memory(const Buffer& b) { return b->scope == Scope::Argument || b->scope == Scope::Global; }

bool is_below_length(const Expr& condition, const RowLoop& r) {
  const Binary* b = condition.as<Binary>();
  return b && b->op == BinaryOp::Lt && uses_position(r, b->a) && equal(b->b, r.length());
}

bool RowLoop::is_inside(const Var& v) const {
  return std::any_of(around.begin(), around.end(), [&](const For* f) { return f->var.same_as(v); });
}

bool RowLoop::is_sum() const {
  return any_below(store().value, [&](const Expr& e) {
    const Load* load = e.as<Load>();
    return load && load->buffer.get() == store().buffer.get();
  });
}

bool RowLoop::is_kept() const { return store().buffer->scope == Scope::Local && !is_sum(); }

void RowLoop::visit_accesses(FunctionRef<void(const Buffer&, const Expr& index)> fn) const {
  fn(store().buffer, store().indices[0]);
  visit(store().value, [&](const Expr& e) {
    if (const Load* load = e.as<Load>()) fn(load->buffer, load->indices[0]);
  });
}

Expr RowLoop::start_of(const Expr& index) const {
  const Expr start = simplify(index - in_row.as<Binary>()->a);
  const bool varies =
      uses_var(start, loop->var) || uses_position(*this, start) ||
      any_below(start, [&](const Expr& e) {
        const VarNode* v = e.as<VarNode>();
        return e.kind() == ExprKind::Load || (v && !v->size && !is_inside(Var::from(e)));
      });
  return varies ? Expr() : start;
}

const RowLoop* Rows::of(const For& f) const {
  const auto at =
      std::find_if(loops.begin(), loops.end(), [&](const RowLoop& r) { return r.loop == &f; });
  return at == loops.end() ? nullptr : &*at;
}

std::optional<Rows> find_rows(const Stmt& kernel) {
  Rows rows;
  std::vector<const For*> around;
  collect(kernel, around, &rows.loops);
  rows.start = find_start(rows.loops);
  if (!rows.start.defined()) return std::nullopt;
  const RowLoop& first = rows.loops[0];
  rows.shift = simplify(floormod(rows.start, Expr(first.lanes())));
  for (const RowLoop& r : rows.loops) {
    if (r.lanes() != first.lanes() || !equal(r.length(), first.length())) return std::nullopt;
    const bool known = !any_below(rows.start, [&](const Expr& e) {
      const VarNode* v = e.as<VarNode>();
      return v && !v->size && !r.is_inside(Var::from(e));
    });
    if (rows.is_shifted() && (!known || !add_rounds(r, &rows.rounds))) return std::nullopt;
  }
  for (const For* f : rows.rounds)
    if (!only_row_loops(f->body, rows)) return std::nullopt;
  if (rows.is_shifted() && !same_places(kernel, rows)) return std::nullopt;
  return rows;
}

}  // namespace heddle::gpu
