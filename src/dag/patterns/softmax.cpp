#include "dag/patterns/softmax.h"

#include <vector>

#include "dag/patterns/look_through.h"

namespace heddle::dag {

WhyNot match_softmax(const ComputeDag& dag, int total, Softmax* out) {
  const Operation& op = dag.stage(total);
  LookThrough look(dag);
  const Reduce* sum = reduction_of(op, ReduceKind::Sum, 0);
  if (!sum || dag.info(total).scan) return WhyNot::other_kind("a sum");
  const DataType type = op.output(0).dtype();
  const Unary* power = nullptr;
  const Expr source = look.expanded(sum->sources[0]);
  if (power = source.as<Unary>(); !power || power->op != UnaryOp::Exp)
    return WhyNot::other_kind("a sum of exp");
  const Binary* shifted = power->a.as<Binary>();
  const Load* at = shifted && shifted->op == BinaryOp::Sub ? shifted->b.as<Load>() : nullptr;
  const int h = at ? look.stage_of(*at) : -1;
  const Operation* max_op = h < 0 ? nullptr : &dag.stage(h);
  const Reduce* max = max_op ? reduction_of(*max_op, ReduceKind::Max, 0) : nullptr;
  if (!max || dag.info(h).scan) return WhyNot::other_kind("a sum of exp(x - maximum)");
  if ((type != f32 && type != f64) || max_op->output(0).dtype() != type)
    return "its exponentials are of a short type";
  // Both reductions must read the same rows, element by element.
  const std::size_t axes = op.axes().size(), over = op.reduce_axes().size();
  if (max_op->axes().size() != axes || max_op->reduce_axes().size() != over)
    return "its maximum is over other axes";
  std::vector<VarBinding> bind;
  for (std::size_t d = 0; d < axes; ++d) {
    const int64_t extent = op.axes()[d].extent();
    if (extent != max_op->axes()[d].extent() ||
        (extent > 1 && !equal(at->indices[d], op.axes()[d].var().expr())))
      return "its maximum is of other rows";
    bind.push_back({max_op->axes()[d].var(), op.axes()[d].var().expr()});
  }
  for (std::size_t r = 0; r < over; ++r) {
    if (op.reduce_axes()[r].extent() != max_op->reduce_axes()[r].extent())
      return "its maximum is over other axes";
    bind.push_back({max_op->reduce_axes()[r].var(), op.reduce_axes()[r].var().expr()});
  }
  if (!equal(substitute(look.expanded(max->sources[0]), bind), shifted->a))
    return "its maximum is of other values";
  out->highest = h;
  out->stored = !sum->sources[0].as<Unary>();
  return "";
}

}  // namespace heddle::dag
