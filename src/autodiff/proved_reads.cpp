#include "autodiff/proved_reads.h"
#include "autodiff/derivative.h"

#include "dsl/validate.h"
#include "heddle/dsl/tensor.h"

namespace heddle::autodiff {
namespace {

class Prover {
 public:
  explicit Prover(const std::vector<VarBinding>& extents) : extents_(extents) {}

  /// `e` where `condition` holds; it is null where there is none.
  Expr prove(const Expr& e, const Expr& condition) const {
    if (holds(e, condition)) return e;
    if (const Select* s = e.as<Select>()) {
      return select(prove(s->condition, condition),
                    prove(s->on_true, both_of(condition, s->condition)),
                    prove(s->on_false, both_of(condition, !s->condition)));
    }
    const Expr out = map_children(e, [&](const Expr& c) { return prove(c, condition); });
    const Load* load = out.as<Load>();
    if (!load || holds(out, condition)) return out;
    std::vector<Expr> at;
    for (size_t d = 0; d < load->indices.size(); ++d)
      at.push_back(max(min(load->indices[d], load->buffer->shape[d] - 1), Expr(0)));
    return make_load(load->buffer, std::move(at));
  }

 private:
  bool holds(const Expr& e, const Expr& condition) const {
    if (!condition.defined()) return reads_in_bounds(extents_, e);
    return reads_in_bounds(extents_, select(condition, e, make_const(e.dtype(), 0)));
  }

  const std::vector<VarBinding>& extents_;
};

}  // namespace

Expr with_proved_reads(const std::vector<VarBinding>& extents, const Expr& e) {
  return Prover(extents).prove(e, {});
}

}  // namespace heddle::autodiff
