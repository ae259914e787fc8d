// Vectors along rows that begin anywhere (picture in gpu_passes.h). A row of n elements that begins
// at element `start` is handled as one of n + start % V positions, the first of which is the last
// multiple of V before the row. Positions before the row are masked like those behind it.
#include <map>

#include "heddle/ir/simplify.h"
#include "ir/sizes.h"
#include "lower/gpu/gpu_passes.h"
#include "lower/gpu/sizes/row_loops.h"

namespace heddle::gpu {
namespace {

bool is_local(const Buffer& b) { return b->scope == Scope::Local; }

// Whether lanes that are not of the row may compute the value, too.
bool may_be_computed(const Expr& value) {
  return !any_below(value, [](const Expr& e) {
    const Binary* b = e.as<Binary>();
    return b && e.dtype().is_integral() &&
           (b->op == BinaryOp::Div || b->op == BinaryOp::Mod || b->op == BinaryOp::FloorDiv ||
            b->op == BinaryOp::FloorMod);
  });
}

class Aligner {
 public:
  explicit Aligner(const Rows& rows) : rows_(rows) {
    for (const RowLoop& r : rows.loops) {
      const Buffer& b = r.store().buffer;
      stored_.insert(b.get());
      if (r.is_kept() && !rows.rounds.empty() && !longer_.count(b.get()))
        longer_[b.get()] =
            Buffer::make(b->name, b->dtype, {Expr(b.num_elements() + r.lanes())}, b->scope);
    }
  }

  Stmt run(const Stmt& s) {
    if (!s) return s;
    const For* f = s.as<For>();
    if (const RowLoop* row = f ? rows_.of(*f) : nullptr) return aligned(*row);
    if (const Allocate* a = s.as<Allocate>())
      return make_allocate(longer(a->buffer), run(a->body), a->copies);
    if (f && rows_.rounds.count(f)) {
      const Binary* rounds = f->extent.as<Binary>();
      const Expr more = rounds ? floordiv(rounds->a + rows_.shift, rounds->b) : f->extent + Expr(1);
      return make_for(f->var, more, f->loop, run(f->body));
    }
    return map_children(s, [&](const Stmt& c) { return run(c); }, [](const Expr& e) { return e; });
  }

 private:
  Expr end(const RowLoop& r) const { return r.length() + rows_.shift; }

  Stmt aligned(const RowLoop& r) const {
    const Expr width(r.lanes()), &at = r.position, lane = at + r.loop->var.expr();
    const Expr some = at < end(r), masked = rows_.shift <= lane && lane < end(r);
    const Stmt vector =
        make_for(r.loop->var, width, LoopKind::Vectorized, body(r, make_const(boolean, 1)));
    const Stmt lanes = make_for(r.loop->var, width, LoopKind::Unrolled, body(r, masked));
    bool registers = true;
    r.visit_accesses([&](const Buffer& b, const Expr&) { registers &= is_local(b); });
    const bool kept = r.guarded && r.is_kept();
    Expr whole = rows_.shift <= at && at + width <= end(r);
    if (kept && registers && may_be_computed(r.store().value)) whole = some;
    if (kept && !registers && reads_rows_only(r)) whole = some && in_buffers(r);
    const Stmt out = make_if(whole, vector, r.guarded ? make_if(some, lanes) : lanes);
    return make_if(others(r), out);
  }

  // What the guards say beside that the lanes are of the row.
  Expr others(const RowLoop& r) const {
    Expr out = make_const(boolean, 1);
    for (const Expr& g : r.guards) {
      if (equal(g, r.in_row)) continue;
      out = out && (is_below_length(g, r) ? Expr(g.as<Binary>()->a < end(r)) : g);
    }
    return simplify(out);
  }

  // Whether all that is read of memory are rows that begin alike, so that lanes that are not of
  // this row may read its neighbours.
  bool reads_rows_only(const RowLoop& r) const {
    bool all = may_be_computed(r.store().value);
    r.visit_accesses([&](const Buffer& b, const Expr& index) {
      if (is_local(b)) return;
      const Expr start = r.start_of(index);
      all &=
          is_memory(b) && !stored_.count(b.get()) && start.defined() && equal(start, rows_.start);
    });
    return all;
  }
  Expr in_buffers(const RowLoop& r) const {
    Expr inside = make_const(boolean, 1);
    r.visit_accesses([&](const Buffer& b, const Expr&) {
      if (is_local(b)) return;
      Expr elements(1);
      for (const Expr& extent : b->shape) elements = elements * extent;
      inside = inside && vector_index(r) + Expr(r.lanes()) <= simplify(elements);
    });
    return inside;
  }

  // Of the vector at the position of `r`, a multiple of its lanes.
  Expr vector_index(const RowLoop& r) const {
    if (!rows_.is_shifted()) return rows_.start + r.position;
    return make_binary(BinaryOp::BitAnd, rows_.start, Expr(-r.lanes())) + r.position;
  }

  // The store, with `masked` in place of the condition of the row.
  Stmt body(const RowLoop& r, const Expr& masked) const {
    const Store& st = r.store();
    RewriteMemo memo;
    Expr value = rewrite(st.value, r, masked, memo);
    const Expr to = is_local(st.buffer) ? st.indices[0] : place(r, st.indices[0]);
    const auto store = [&] { return make_store(longer(st.buffer), {to}, value, st.hint); };
    if (is_const(masked) || !r.guarded) return store();
    if (!r.is_kept()) return make_if(masked, store());
    value = make_select(masked, value, make_const(value.dtype(), 0));
    return store();
  }

  Expr place(const RowLoop& r, const Expr& index) const {
    const Expr start = r.start_of(index);
    if (start.defined() && equal(start, rows_.start)) return vector_index(r) + r.loop->var.expr();
    return simplify(substitute(index, {{r.loop->var, r.loop->var.expr() - rows_.shift}}));
  }

  Expr rewrite(const Expr& e, const RowLoop& r, const Expr& masked, RewriteMemo& memo) const {
    return memo(e, [&](const Expr& x) -> Expr {
      if (equal(x, r.in_row)) return masked;
      if (const Load* load = x.as<Load>()) {
        const bool local = is_local(load->buffer);
        return make_load(longer(load->buffer),
                         {local ? load->indices[0] : place(r, load->indices[0])});
      }
      const bool lane = x.kind() == ExprKind::Var && Var::from(x).same_as(r.loop->var);
      if (lane) return x - rows_.shift;
      return map_children(x, [&](const Expr& c) { return rewrite(c, r, masked, memo); });
    });
  }

  // What a thread keeps of a row has room for one vector more.
  Buffer longer(const Buffer& b) const {
    const auto at = longer_.find(b.get());
    return at == longer_.end() ? b : at->second;
  }

  const Rows& rows_;
  std::set<const BufferNode*> stored_;
  std::map<const BufferNode*, Buffer> longer_;
};

// The kernel `s` for sizes that are multiples of the lanes, all of whose rows begin at multiples,
// and `others` for other sizes.
Stmt for_multiples(const Stmt& s, const Rows& rows, const Stmt& others) {
  const Expr lanes(rows.loops[0].lanes());
  const std::optional<ScaledSize> length = as_scaled_size(rows.loops[0].length());
  if (!length) return others;
  const Expr n = length->size;
  const SizeRange& range = *length->size->size;
  const int64_t v = *as_int(lanes), lo = (range.lo + v - 1) / v, hi = range.hi / v;
  if (lo > hi) return others;
  const Var part(length->size->name + "_" + std::to_string(v), SizeRange{lo, hi});
  const Stmt body = simplify(substitute(s, {{length->size, part * lanes}}));
  return make_if(floormod(n, lanes) == Expr(0), make_let(part, floordiv(n, lanes), body), others);
}

}  // namespace

Stmt align_rows(const Stmt& s) {
  const std::optional<Rows> rows = s ? find_rows(s) : std::nullopt;
  if (!rows) return s;
  const Stmt aligned = Aligner(*rows).run(s);
  return rows->is_shifted() ? for_multiples(s, *rows, aligned) : aligned;
}

}  // namespace heddle::gpu
