#include "cuda/products/tensor_core_shape.h"

#include <utility>

#include "common/costs.h"
#include "cuda/products/product_loops.h"
#include "heddle/dag/factors.h"
#include "heddle/instruction/instruction.h"
#include "heddle/support/error.h"

namespace heddle::meta {
namespace {

constexpr int64_t kSector = 32;  // bytes of a sector of the second cache
constexpr int64_t kLanes = 8;    // elements that an axis must have to be that of the columns
constexpr int64_t kFewLines = 4, kShallow = 8;  // smaller products do not pay on a matrix unit

// Whether `axis` and the reduction each index a dimension of the operand alone, and one of these
// dimensions is contiguous.
bool plain_operand(const Access& a, const Operation& op, int axis) {
  if (op.reduce_axes().size() != 1) return false;
  const int s = plain_dim(a, op.axes()[static_cast<size_t>(axis)]);
  const int k = plain_dim(a, op.reduce_axes()[0]);
  return s >= 0 && k >= 0 && std::max(s, k) + 1 == static_cast<int>(a.indices.size());
}

// Whether the stage is a product of matrices with one axis for each dimension. The sizes may be
// any, because tiles are padded.
bool is_plain_product(const ComputeDag& dag, int stage) {
  const Operation& op = dag.stage(stage);
  const ContractionShape sh = contraction_shape(dag, stage, kLanes);
  if (sh.m < 0 || !sh.row || !sh.vector || sh.row->producer == sh.vector->producer) return false;
  // If a batch has one row, the batch axis would be taken as rows, but each of these rows has
  // another vector operand.
  if (sh.vector->depends_on(op.axes()[static_cast<size_t>(sh.m)])) return false;
  return plain_operand(*sh.row, op, sh.m) && plain_operand(*sh.vector, op, sh.v);
}

}  // namespace

std::optional<DataType> tensor_core_operands(const Operation& op, bool allow_tf32) {
  const Reduce* r = op.bodies()[0].as<Reduce>();
  if (!r || r->combiner->kind != ReduceKind::Sum || r->sources.size() != 1) return {};
  const Binary* mul = r->sources[0].as<Binary>();
  if (!mul || mul->op != BinaryOp::Mul) return {};
  const Load *a = read_of_factor(mul->a), *b = read_of_factor(mul->b);
  if (!a || !b || a->buffer == b->buffer) return {};
  const DataType t = a->dtype, wide = mul->dtype;
  // Sums in f16, which mma has too, are not exact enough.
  if (wide == f16 || (t == f32 && !allow_tf32 && !rounds_factors(r->sources[0]))) return {};
  return mma_instruction().form({wide, t, b->dtype}) ? std::optional(t) : std::nullopt;
}

std::optional<ContractionView> tensor_core_view(const ComputeDag& dag, int stage, bool allow_tf32) {
  const Operation& op = dag.stage(stage);
  if (!op.is_reduction() || op.num_outputs() != 1 || !tensor_core_operands(op, allow_tf32))
    return {};
  if (is_plain_product(dag, stage)) return {};
  std::optional<ContractionView> view = contraction_view(op);
  if (!view || ContractionView::points(view->cols) < kFewLines ||
      ContractionView::points(view->rows) < kFewLines ||
      ContractionView::points(view->depth) < kShallow)
    return {};
  return view;
}

bool has_tensor_cores(const Target& target) { return target.is_cuda() && target.gpu.sm() >= 80; }

bool feeds_tensor_cores(const ComputeDag& dag, const StageGroup& g, const Target& target) {
  if (!has_tensor_cores(target) || g.attached) return false;
  if (g.anchor_class != StageClass::ComplexReduction) return false;
  const Operation& op = dag.stage(g.anchor);
  const std::optional<DataType> operands = tensor_core_operands(op, g.allow_tf32);
  if (op.num_outputs() != 1 || !operands) return false;
  if (operands->is_float8() && !target.gpu.has_float8_products()) return false;
  return is_plain_product(dag, g.anchor) || tensor_core_view(dag, g.anchor, g.allow_tf32);
}

TensorCoreShape::TensorCoreShape(const ComputeDag& dag, const StageGroup& g)
    : dag_(&dag),
      op_(&dag.stage(g.anchor)),
      anchor_(g.anchor),
      output_(g.output_stage),
      axes_(contraction_shape(dag, g.anchor, kLanes)),
      view_(tensor_core_view(dag, g.anchor, g.allow_tf32)),
      allow_tf32_(g.allow_tf32),
      pack_(4 / tensor_core_operands(*op_, g.allow_tf32)->bytes()),
      slow_results_(has_transcendentals(dag, g.output_stage, g.inlined)) {
  if (view_) innermost_ = depth_innermost(*op_, *view_);
}

TensorCoreShape TensorCoreShape::of_copies() const {
  TensorCoreShape out = *this;
  out.view_ = innermost_->view;
  out.of_copies_ = true;
  return out;
}

TensorCoreShape TensorCoreShape::exchanged() const {
  HEDDLE_ICHECK(!view_, "a viewed product keeps its rows");
  TensorCoreShape out = *this;
  ContractionShape& x = out.axes_;
  std::swap(x.m, x.v);
  std::swap(x.row, x.vector);
  std::swap(x.row_dim, x.vector_dim);
  std::swap(x.rows, x.cols);
  std::swap(x.m_others, x.v_others);
  out.exchanged_ = !exchanged_;
  return out;
}

const ViewOperand& TensorCoreShape::view_operand(size_t which) const {
  return which == 0 ? view_->row_operand : view_->col_operand;
}

std::array<int, 2> TensorCoreShape::producers() const {
  if (!view_) return {axes_.row->producer, axes_.vector->producer};
  return {producer_of(*dag_, anchor_, view_->row_operand.load),
          producer_of(*dag_, anchor_, view_->col_operand.load)};
}

bool TensorCoreShape::by_elements(size_t which) const {
  constexpr int64_t kLeastAsyncBytes = 4;
  return layout(which).vector * 4 / pack_ < kLeastAsyncBytes;
}

TensorCoreProblem TensorCoreShape::problem(const Gpu& gpu, const GpuConstants& constants) const {
  TensorCoreProblem p;
  p.constants = constants;
  p.pack = pack_;
  p.gpu = gpu;
  p.cols_lie_across = !lies_along_depth(1);
  const DataType operands = *tensor_core_operands(*op_, true);
  p.partial_sums = operands.is_float8() || (operands == f32 && !allow_tf32_);
  p.slow_results = slow_results_;
  if (!view_) {
    p.rows = axes_.rows;
    p.cols = axes_.cols;
    p.depth = axes_.depth;
    for (const auto* list : {&axes_.batch, &axes_.m_others, &axes_.v_others}) {
      for (int i : *list) p.batch *= op_->axes()[static_cast<size_t>(i)].extent();
    }
    for (size_t o = 0; o < 2; ++o) {
      const Tensor tensor = o == 0 ? axes_.row->tensor : axes_.vector->tensor;
      p.operands[o].by_elements = by_elements(o);
      p.operands[o].splits_sectors =
          tensor.extents().back() * tensor.dtype().bytes() % kSector != 0;
    }
    p.boxed_bytes = boxed_bytes();
    p.exchanged = exchanged_;
    return p;
  }
  p.viewed = true;
  p.boxed_bytes = boxed_bytes();
  p.rows = ContractionView::points(view_->rows);
  p.cols = ContractionView::points(view_->cols);
  p.depth = ContractionView::points(view_->depth);
  p.batch = ContractionView::points(view_->batch);
  for (size_t o = 0; o < 2; ++o) {
    p.operands[o].by_elements = by_elements(o);
    p.operands[o].short_vectors = !by_elements(o) && view_operand(o).vector < 4 * pack_;
    if (!innermost_) continue;
    const int source = producer_of(*dag_, anchor_, view_operand(o).load);
    const bool constant = dag_->stage(source).is_constant() || dag_->info(source).precomputable;
    const int64_t read = (o == 0 ? p.rows : p.cols) * p.depth * p.batch;
    p.operands[o] = {innermost_->copied[o], constant, by_elements(o), view_operand(o).along_depth,
                     p.operands[o].short_vectors};
    p.operands[o].copy_helps =
        !of_copies().by_elements(o) && (constant || dag_->stage(source).output(0).size() <= read);
  }
  return p;
}

// TMA has no type for f32 that stores all bits and that loads of f32 use, and their direct stores
// fill whole sectors.
int64_t TensorCoreShape::boxed_bytes() const {
  constexpr int64_t kMostBytes = 2, kVectorBytes = 16;
  constexpr size_t kMostDims = 5;
  const Operation& out = dag_->stage(output_);
  const int64_t bytes = out.output(0).dtype().bytes();
  int last = exchanged_ ? axes_.m : axes_.v;
  if (view_)
    last = view_->cols.size() == 1 && view_->cols[0].divisor == 1 ? view_->cols[0].axis : -1;
  const bool rows = out.num_outputs() == 1 && out.axes().size() >= 2 &&
                    out.axes().size() <= kMostDims &&
                    last + 1 == static_cast<int>(out.axes().size());
  // The results may be fewer than the sums: those of padded operands.
  if (!rows || bytes > kMostBytes || out.output(0).extents().back() * bytes % kVectorBytes != 0)
    return 0;
  return bytes;
}

bool TensorCoreShape::lies_along_depth(size_t which) const {
  const Layout l = layout(which);
  return l.line_dim < l.depth_dim;
}

TensorCoreShape::Layout TensorCoreShape::layout(size_t which) const {
  if (view_) {
    const ViewOperand& o = view_operand(which);
    const int last = static_cast<int>(view_->batch.size()) + 1;
    return {o.along_depth ? last - 1 : last, o.along_depth ? last : last - 1, o.vector};
  }
  const Access& a = which == 0 ? *axes_.row : *axes_.vector;
  // All rows of the operand start at a multiple of this vector: at most 16 bytes, as the length of
  // a row allows.
  return {plain_dim(a, op_->axes()[static_cast<size_t>(which == 0 ? axes_.m : axes_.v)]),
          plain_dim(a, op_->reduce_axes()[0]), whole_vector(a.tensor.extents().back(), 4 * pack_)};
}

bool TensorCoreShape::turned(size_t which) const {
  if (pack_ != 4) return false;
  const Layout l = layout(which);
  return l.depth_dim < l.line_dim;
}

}  // namespace heddle::meta
