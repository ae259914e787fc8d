// Helpers for schedules of a viewed product (product_view.h): the step that makes it, the loops of
// a stage with the axes of the declaration, and copies of its operands.
#pragma once

#include "cuda/products/product_view.h"

namespace heddle::meta {

/// The argument of as_product for `view` of the sum of stage `anchor`. Extents are not rounded up.
inline StageRef::ProductView product_step(const StageRef& anchor, const ContractionView& view) {
  const auto digits = [&](const std::vector<ViewDigit>& from, bool reduce) {
    std::vector<StageRef::Digit> out;
    for (const ViewDigit& d : from)
      out.push_back(
          {reduce ? anchor.reduce_axis(d.axis) : anchor.axis(d.axis), d.divisor, d.extent});
    return out;
  };
  StageRef::ProductView v;
  v.batch = digits(view.batch, false);
  v.rows = digits(view.rows, false);
  v.cols = digits(view.cols, false);
  v.depth = digits(view.depth, true);
  v.rows_along_depth = view.row_operand.along_depth;
  v.cols_along_depth = view.col_operand.along_depth;
  return v;
}

struct ProductLoops {
  std::vector<Loop> batch;
  Loop rows, cols;
};

/// Fuses the axes of the view's rows to one loop of `s`, a stage with the axes of the declaration,
/// and those of its columns to another. They follow the axes of the batch, in this order.
inline ProductLoops taken_together(StageRef s, const ContractionView& view) {
  std::vector<Loop> parts = s.all_axes(), groups = parts;
  for (const ViewDigit& d : view.batch) {
    if (d.divisor == 1) continue;
    const auto at = static_cast<size_t>(d.axis);
    auto [group, member] = s.split(parts[at], d.divisor);
    groups[at] = group;
    parts[at] = member;
  }
  const auto loops = [](const std::vector<ViewDigit>& digits, const std::vector<Loop>& from) {
    std::vector<Loop> out;
    for (const ViewDigit& d : digits) out.push_back(from[static_cast<size_t>(d.axis)]);
    return out;
  };
  const std::vector<Loop> rows = loops(view.rows, parts), cols = loops(view.cols, parts);
  ProductLoops out{loops(view.batch, groups), {}, {}};
  std::vector<Loop> order = out.batch;
  order.insert(order.end(), rows.begin(), rows.end());
  order.insert(order.end(), cols.begin(), cols.end());
  s.reorder(order);
  out.rows = s.fuse(rows);
  out.cols = s.fuse(cols);
  return out;
}

/// The stage that operand `load` of stage `anchor` reads.
inline int producer_of(const ComputeDag& dag, int anchor, const Load* load) {
  for (const Access& a : dag.info(anchor).reads) {
    if (a.buffer == load->buffer) return a.producer;
  }
  throw_internal_error("an operand of the product is no read of it");
}

/// Copies operand `o` of stage `anchor` (0: of the rows) at the root, with the dimension of the
/// depth innermost. The copy is a kernel of its own, or is made once for a constant.
inline void copy_innermost(TemplateBuilder& t, int anchor, const DepthInnermost& innermost,
                           size_t o) {
  const ViewOperand& operand = o == 0 ? innermost.view.row_operand : innermost.view.col_operand;
  StageRef source = t.stage(producer_of(t.dag(), anchor, operand.load));
  StageRef copy = source.cache_read({t.stage(anchor)});
  std::vector<StageRef::StorageDim> dims;
  std::vector<Loop> lines;
  for (int d = 0; d < copy.num_axes(); ++d) {
    if (d == innermost.dims[o]) continue;
    dims.push_back({d, 1, 0});
    lines.push_back(copy.axis(d));
  }
  const Loop depth = copy.axis(innermost.dims[o]);
  dims.push_back({innermost.dims[o], 1, 0});
  copy.layout(dims);
  auto [steps, lane] = copy.split(depth, operand.vector);
  std::vector<Loop> order{steps};
  order.insert(order.end(), lines.begin(), lines.end());
  order.push_back(lane);
  copy.reorder(order);
  // Neighbouring threads read neighbouring elements, one of each line.
  auto [block, thread] = copy.split(lines.empty() ? steps : copy.fuse(lines), 128);
  if (!lines.empty()) copy.bind(steps, LoopKind::BlockY);
  copy.bind(block, LoopKind::BlockX);
  copy.bind(thread, LoopKind::ThreadX);
  copy.vectorize(lane);
}

}  // namespace heddle::meta
