// Questions of the rule and the recipe about a contraction.
#include "cuda/products/complex_reduction_recipe.h"

namespace heddle::meta {
namespace {

// Whether rows, columns or depth consist of several axes.
bool has_several_axes(const ContractionView& view) {
  const std::array lists{&view.rows, &view.cols, &view.depth};
  return std::any_of(lists.begin(), lists.end(), [](const auto* list) {
    return std::count_if(list->begin(), list->end(),
                         [](const ViewDigit& d) { return d.extent > 1; }) > 1;
  });
}

// With fewer elements than one thread takes, only the first thread would have work.
constexpr int64_t kFew = 5;

bool fills_threads(const ContractionView& view) {
  const std::array lists{&view.rows, &view.cols, &view.depth};
  return std::all_of(lists.begin(), lists.end(),
                     [](const auto* list) { return ContractionView::points(*list) >= kFew; });
}

// Whether the rule's tile divides rows, columns and depth. The copies of a tile at the end of an
// operand would otherwise be of another width, which is not known when the kernel is compiled.
bool tiles_divide(const SimtProblem& p) {
  const Choice c = simt_rule(p);
  const int64_t rows = c.value("group_rows") * c.value("row_groups") * c.value("row_threads"),
                cols = kColumnLanes * c.value("col_threads") * c.value("col_groups"),
                steps = c.value(c.value("reduction") == 1 ? "k_part" : "tile_k");
  return (p.rows == 1 || p.rows % rows == 0) && p.cols % cols == 0 && p.step_depth % steps == 0;
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

SimtShape::SimtShape(const ComputeDag& dag, const StageGroup& g, const Gpu& gpu,
                     const GpuConstants& constants)
    : op(&dag.stage(g.anchor)),
      axes(contraction_shape(dag, g.anchor, kColumnLanes)),
      step_axis(longest_axis(op->reduce_axes())) {
  std::optional<ContractionView> found =
      op->num_outputs() == 1 ? contraction_view(*op) : std::nullopt;
  if (!found) return;
  const bool several = has_several_axes(*found);
  if (several && !fills_threads(*found)) return;
  pads = true;
  if (!several && tiles_divide(problem(gpu, constants))) return;
  view = std::move(found);
  axes.rows = ContractionView::points(view->rows);
  axes.cols = ContractionView::points(view->cols);
  axes.depth = ContractionView::points(view->depth);
}

SimtProblem SimtShape::problem(const Gpu& gpu, const GpuConstants& constants) const {
  SimtProblem p;
  p.constants = constants;
  p.rows = axes.rows;
  p.cols = axes.cols;
  p.depth = axes.depth;
  p.commutative = op->bodies()[0].as<Reduce>()->combiner->commutative;
  p.pads = pads;
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
