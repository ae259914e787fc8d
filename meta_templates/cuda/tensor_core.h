// Which contractions the tensor cores take.
#pragma once

#include <optional>

#include "common/contraction_shape.h"
#include "cuda/product_view.h"

namespace heddle::meta {

inline constexpr int64_t kRows = 16, kCols = 8;  // of one mma

/// The type of the operands of sum(a * b) where mma.sync multiplies them: 16-bit floats added up in
/// f32, bytes added up in i32 (signed and not may be mixed: the type is that of the first), and f32
/// where the options allow to round it to tf32.
inline std::optional<DataType> tensor_core_operands(const Operation& op, bool allow_tf32) {
  const Reduce* r = op.bodies()[0].as<Reduce>();
  if (!r || r->combiner->kind != ReduceKind::Sum || r->sources.size() != 1) return {};
  const Binary* mul = r->sources[0].as<Binary>();
  if (!mul || mul->op != BinaryOp::Mul) return {};
  auto operand = [](const Expr& e) {
    const Cast* c = e.as<Cast>();
    return (c ? c->value : e).as<Load>();
  };
  const Load *a = operand(mul->a), *b = operand(mul->b);
  if (!a || !b || a->buffer == b->buffer) return {};
  const DataType t = a->dtype;
  const auto is_byte = [](DataType x) { return x == i8 || x == u8; };
  if (is_byte(t) && is_byte(b->dtype) && mul->dtype == i32) return t;
  if (b->dtype != t || mul->dtype != f32) return {};
  const bool tf32 = t == f32 && allow_tf32;
  if (t == f16 || t == bf16 || tf32) return t;
  return {};
}

/// Rows or columns, and the reduction, index a dimension of the operand each, alone; one of them
/// runs along consecutive elements.
inline bool plain_operand(const Access& a, const Operation& op, int axis) {
  if (op.reduce_axes().size() != 1) return false;
  const int s = plain_dim(a, op.axes()[static_cast<size_t>(axis)]);
  const int k = plain_dim(a, op.reduce_axes()[0]);
  return s >= 0 && k >= 0 && std::max(s, k) + 1 == static_cast<int>(a.indices.size());
}

/// Whether the stage is a product of matrices as it stands, one axis each, and of any size: tiles
/// are padded.
inline bool is_plain_product(const ComputeDag& dag, int stage) {
  const Operation& op = dag.stage(stage);
  const ContractionShape sh = contraction_shape(dag, stage, 8);
  if (sh.m < 0 || !sh.row || !sh.vector || sh.row->producer == sh.vector->producer) return false;
  // Of one row a batch, the batch would be the rows: but every column of it has its own operand.
  if (sh.vector->depends_on(op.axes()[static_cast<size_t>(sh.m)])) return false;
  return plain_operand(*sh.row, op, sh.m) && plain_operand(*sh.vector, op, sh.v);
}

/// The view of a stage that is a product of matrices only when several axes are taken as one (a
/// convolution), and large enough for the tiles of mma: a depthwise convolution is not.
inline std::optional<ContractionView> tensor_core_view(const ComputeDag& dag, int stage,
                                                       bool allow_tf32) {
  constexpr int64_t kFewColumns = 4, kShallow = 8;
  const Operation& op = dag.stage(stage);
  if (!op.is_reduction() || op.num_outputs() != 1 || !tensor_core_operands(op, allow_tf32))
    return {};
  if (is_plain_product(dag, stage)) return {};
  std::optional<ContractionView> view = contraction_view(op);
  if (!view || ContractionView::points(view->cols) < kFewColumns ||
      ContractionView::points(view->rows) < kFewColumns ||
      ContractionView::points(view->depth) < kShallow)
    return {};
  return view;
}

inline bool has_tensor_cores(const Target& target) {
  return target.is_cuda() && target.gpu.sm() >= 80;
}

/// Whether the group is a product that mma.sync takes whole.
inline bool feeds_tensor_cores(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (!has_tensor_cores(target) || g.attached) return false;
  if (g.anchor_class != StageClass::ComplexReduction) return false;
  const Operation& op = dag.stage(g.anchor);
  if (op.num_outputs() != 1 || !tensor_core_operands(op, g.allow_tf32)) return false;
  return is_plain_product(dag, g.anchor) || tensor_core_view(dag, g.anchor, g.allow_tf32);
}

}  // namespace heddle::meta
