// Questions of the rule and the recipe about a contraction.
#include "cuda/complex_reduction_recipe.h"

namespace heddle::meta {
namespace {

// The view of the contraction as a product of matrices in which some dimension consists of several
// axes.
std::optional<ContractionView> several_axes_view(const Operation& op) {
  // With fewer elements than one thread takes, only the first thread would have work.
  constexpr int64_t kFew = 5;
  std::optional<ContractionView> view = op.num_outputs() == 1 ? contraction_view(op) : std::nullopt;
  if (!view) return {};
  bool several = false;
  for (const auto* list : {&view->rows, &view->cols, &view->depth}) {
    several |= std::count_if(list->begin(), list->end(),
                             [](const ViewDigit& d) { return d.extent > 1; }) > 1;
    if (ContractionView::points(*list) < kFew) return {};
  }
  return several ? view : std::nullopt;
}

// The longest axis; among equals the first.
int longest_axis(const std::vector<Axis>& axes) {
  int longest = 0;
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i].extent() > axes[static_cast<size_t>(longest)].extent())
      longest = static_cast<int>(i);
  }
  return longest;
}

}  // namespace

SimtShape::SimtShape(const ComputeDag& dag, const StageGroup& g)
    : op(&dag.stage(g.anchor)),
      axes(contraction_shape(dag, g.anchor, kColumnLanes)),
      view(several_axes_view(*op)),
      step_axis(longest_axis(op->reduce_axes())) {
  if (!view) return;
  axes.rows = ContractionView::points(view->rows);
  axes.cols = ContractionView::points(view->cols);
  axes.depth = ContractionView::points(view->depth);
}

SimtProblem SimtShape::problem(const Gpu& gpu) const {
  SimtProblem p;
  p.rows = axes.rows;
  p.cols = axes.cols;
  p.depth = axes.depth;
  p.commutative = op->bodies()[0].as<Reduce>()->combiner->commutative;
  p.gpu = gpu;
  if (view) {
    p.others = ContractionView::points(view->batch);
    p.step_depth = axes.depth;
    p.operand_bytes = view->col_operand.load->dtype.bytes();
    return p;
  }
  for (const auto* list : {&axes.batch, &axes.m_others, &axes.v_others}) {
    for (int i : *list) p.others *= op->axes()[static_cast<size_t>(i)].extent();
  }
  p.step_depth = op->reduce_axes()[static_cast<size_t>(step_axis)].extent();
  if (axes.vector) p.operand_bytes = axes.vector->tensor.dtype().bytes();
  return p;
}

}  // namespace heddle::meta
