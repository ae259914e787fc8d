#include "lower/passes/fused_parts.h"

#include <algorithm>

namespace heddle::lowering {

Stmt FusedParts::take_out(const Stmt& body) {
  return map_children(
      body, [&](const Stmt& s) { return take_out(s); }, [&](const Expr& e) { return take_out(e); });
}

Ranges FusedParts::narrowed(Ranges ranges) const {
  const auto narrow = [&](const Part& p, const Expr& same) {
    const Interval a = range_of(p.var.expr(), ranges), b = range_of(same, ranges);
    const Interval both{std::max(a.min, b.min), std::min(a.max, b.max)};
    if (both.min <= both.max) ranges.set(p.var, both);
  };
  for (size_t i = 1; i < known_.size(); ++i) narrow(known_[i], known_[i].of);
  for (size_t i = known_.size(); i-- > 0;) {
    if (const Expr sum = sum_of_parts(known_[i]); sum.defined()) narrow(known_[i], sum);
  }
  return ranges;
}

Expr FusedParts::sum_of_parts(const Part& whole) const {
  for (const Part& quotient : known_) {
    const Binary* q = quotient.of.as<Binary>();
    if (!q || q->op != BinaryOp::FloorDiv || !q->a.same_as(whole.var.expr())) continue;
    for (const Part& rest : known_) {
      const Binary* r = rest.of.as<Binary>();
      if (r && r->op == BinaryOp::FloorMod && r->a.same_as(q->a) && equal(r->b, q->b))
        return quotient.var.expr() * q->b + rest.var.expr();
    }
  }
  return {};
}

Expr FusedParts::take_out(const Expr& e) {
  if (const auto it = done_.find(e.get()); it != done_.end()) return it->second.second;
  const Expr out = part_of(map_children(e, [&](const Expr& c) { return take_out(c); }));
  done_.emplace(e.get(), std::pair(e, out));
  return out;
}

Expr FusedParts::part_of(const Expr& out) {
  const Binary* b = out.as<Binary>();
  if (!b || (b->op != BinaryOp::FloorDiv && b->op != BinaryOp::FloorMod)) return out;
  const int64_t* by = as_int(b->b);
  if (!by || *by <= 0) return out;
  const auto found = [&](const Expr& x) {
    return [&x](const Part& p) { return p.var.expr().same_as(x); };
  };
  const auto from = std::find_if(known_.begin(), known_.end(), found(b->a));
  if (from == known_.end()) return out;
  for (const Part& p : known_) {
    if (equal(p.of, out)) return p.var.expr();
  }
  const bool rest = b->op == BinaryOp::FloorMod;
  const int64_t most = rest ? *by - 1 : (from->extent - 1) / *by;
  const Var v(from->var->name + (rest ? ".rest" : ".whole"));
  known_.push_back({v, out, most + 1});
  return v.expr();
}

Stmt FusedParts::put_back(Stmt body) const {
  // The variables are replaced from last to first, because a later one may be a part of an earlier
  // one.
  for (size_t i = known_.size(); i-- > 1;) body = substitute(body, {{known_[i].var, known_[i].of}});
  return body;
}

}  // namespace heddle::lowering
