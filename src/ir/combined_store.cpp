#include "ir/combined_store.h"

#include "heddle/ir/simplify.h"
#include "heddle/support/error.h"

namespace heddle {
namespace {

/// The operands of `e`, a tree of operations `op`, without `own`.
void add_others(const Expr& e, BinaryOp op, const Expr& own, std::vector<Expr>& others) {
  if (equal(e, own)) return;
  const Binary* b = e.as<Binary>();
  if (!b || b->op != op) return others.push_back(e);
  add_others(b->a, op, own, others);
  add_others(b->b, op, own, others);
}

}  // namespace

CombinedPart combined_part(const Store& store) {
  const Binary* b = store.value.as<Binary>();
  const Expr own = make_load(store.buffer, store.indices);
  CombinedPart out{b && (b->op == BinaryOp::Min || b->op == BinaryOp::Max) ? b->op : BinaryOp::Add,
                   {}};
  std::vector<Expr> others;
  add_others(store.value, out.op, own, others);
  for (const Expr& e : others) out.part = out.part.defined() ? make_binary(out.op, out.part, e) : e;
  const auto reads_own = [&](const Expr& e) {
    const Load* load = e.as<Load>();
    return load && load->buffer == store.buffer;
  };
  // Terms of a sum may have been put together behind the element.
  if (out.op == BinaryOp::Add && out.part.defined() && any_below(out.part, reads_own))
    out.part = simplify(store.value - own);
  const bool apart = out.part.defined() && !any_below(out.part, reads_own);
  HEDDLE_ICHECK(apart, "'" + store.buffer->name + "' is combined with no part of its own");
  return out;
}

}  // namespace heddle
