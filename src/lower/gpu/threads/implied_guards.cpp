// Conditions that the masks inside of them imply.
//
//   if (16*o + 4*i < n) { s = s + select(ty + 16*o + 4*i < n, x[..], 0) }
//     -->  s = s + select(ty + 16*o + 4*i < n, x[..], 0)
//
// A branch between two loads makes the second one wait for the first.
#include <algorithm>

#include "heddle/ir/simplify.h"
#include "ir/sizes.h"
#include "lower/gpu/gpu_passes.h"

namespace heddle::gpu {
namespace {

// The mask of a sum that leaves its result as it is where the mask is false; null for others.
const Expr* mask_of_sum(const Stmt& s) {
  if (const For* f = s.as<For>())
    return f->loop == LoopKind::Vectorized || f->loop == LoopKind::Unrolled ? mask_of_sum(f->body)
                                                                            : nullptr;
  const Store* st = s.as<Store>();
  const Binary* sum = st ? st->value.as<Binary>() : nullptr;
  if (!sum || sum->op != BinaryOp::Add || st->buffer->scope != Scope::Local) return nullptr;
  const Select* part = sum->b.as<Select>();
  const bool of_itself = equal(sum->a, make_load(st->buffer, st->indices));
  return part && of_itself && is_const(part->on_false, 0) ? &part->condition : nullptr;
}

// Whether `mask` is false where `guard` is: both compare with one size, the mask a larger number.
bool implies(const Expr& mask, const Expr& guard, const Ranges& ranges) {
  const Binary *m = mask.as<Binary>(), *g = guard.as<Binary>();
  if (!m || !g || m->op != BinaryOp::Lt || g->op != BinaryOp::Lt || !equal(m->b, g->b))
    return false;
  return is_symbolic(g->b) && range_of(simplify(m->a - g->a, ranges), ranges).min >= 0;
}

Stmt without_guards(const Stmt& s, const Ranges& ranges) {
  if (!s) return s;
  if (const For* f = s.as<For>()) {
    Ranges inside = ranges;
    const Interval n = range_of(f->extent, ranges);
    inside.set(f->var, {0, std::max<int64_t>(n.max - 1, 0)});
    return make_for(f->var, f->extent, f->loop, without_guards(f->body, inside));
  }
  const If* i = s.as<If>();
  if (const Expr* mask = i && !i->else_body ? mask_of_sum(i->then_body) : nullptr) {
    if (implies(*mask, i->condition, ranges)) return i->then_body;
  }
  return map_children(
      s, [&](const Stmt& c) { return without_guards(c, ranges); }, [](const Expr& e) { return e; });
}

}  // namespace

Stmt drop_implied_guards(const Stmt& s) { return without_guards(s, {}); }

}  // namespace heddle::gpu
