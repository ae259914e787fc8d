// Which contractions the tensor cores take.
#pragma once

#include "contraction_shape.h"

namespace heddle::meta {

inline constexpr int64_t kRows = 16, kCols = 8, kDepth = 16;  // of one mma

inline bool is_half(DataType t) { return t == f16 || t == bf16; }

// sum(f32(a) * f32(b)) of 16-bit operands of one type.
inline bool is_half_product(const Operation& op) {
  const Reduce* r = op.bodies()[0].as<Reduce>();
  if (!r || r->combiner->kind != ReduceKind::Sum || r->sources.size() != 1) return false;
  const Binary* mul = r->sources[0].as<Binary>();
  if (!mul || mul->op != BinaryOp::Mul || mul->dtype != f32) return false;
  auto operand = [](const Expr& e) {
    const Cast* c = e.as<Cast>();
    return c ? c->value.as<Load>() : nullptr;
  };
  const Load *a = operand(mul->a), *b = operand(mul->b);
  return a && b && is_half(a->dtype) && a->dtype == b->dtype;
}

// The operand's dimensions that rows (or columns) and the reduction index alone, nothing else but
// batch axes beside them.
inline bool plain_operand(const Access& a, const Operation& op, int axis) {
  if (plain_dim(a, op.axes()[static_cast<size_t>(axis)]) < 0) return false;
  return op.reduce_axes().size() == 1 && plain_dim(a, op.reduce_axes()[0]) >= 0;
}

/// Whether the group is a product of 16-bit floats that mma.sync takes whole.
inline bool feeds_tensor_cores(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (!target.is_cuda() || target.gpu.sm() < 80 || g.hosted) return false;
  if (g.main_class != StageClass::ComplexReduction) return false;
  const Operation& op = dag.stage(g.main);
  if (op.num_outputs() != 1 || !is_half_product(op)) return false;
  const ContractionShape sh = contraction_shape(dag, g.main, 8);
  if (sh.m < 0 || !sh.row || !sh.vector) return false;
  return sh.rows % kRows == 0 && sh.cols % kCols == 0 && sh.depth % kDepth == 0 &&
         plain_operand(*sh.row, op, sh.m) && plain_operand(*sh.vector, op, sh.v);
}

}  // namespace heddle::meta
