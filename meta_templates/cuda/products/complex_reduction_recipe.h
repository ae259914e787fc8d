// The loops of a contraction without matrix units.
#pragma once

#include <optional>

#include "common/contraction_shape.h"
#include "cuda/products/complex_reduction_rule.h"
#include "cuda/products/product_view.h"

namespace heddle::meta {

/// The contraction as the recipe uses it.
struct SimtShape {
  SimtShape(const ComputeDag& dag, const StageGroup& g, const Gpu& gpu,
            const GpuConstants& constants);

  const Operation* op;
  ContractionShape axes;
  /// The view as one product of matrices, of full tiles, where several axes are taken as one or
  /// tiles do not divide the operands; `axes` then has its sizes.
  std::optional<ContractionView> view;
  /// Whether such a view exists. Without one, tiles and steps at the end of the operands are
  /// shorter.
  bool pads = false;
  int step_axis = 0;  ///< the reduce axis that is cut into steps, where there is no view

  bool has_rows() const { return view || axes.m >= 0; }
  SimtProblem problem(const Gpu& gpu, const GpuConstants& constants) const;
};

/// The knobs of the recipe. `k_part` exists where the reduction may be cut into parts.
struct SimtKnobs {
  Param group_rows, row_groups, row_threads, col_threads, col_groups, tile_k, stages, reduction,
      k_part;
};

/// Writes one form of the reduction: the whole depth in each block, or parts that a second kernel
/// adds up.
void simt_whole(TemplateBuilder& t, const StageGroup& g, const SimtShape& shape,
                const SimtKnobs& knobs);
void simt_parts(TemplateBuilder& t, const StageGroup& g, const SimtShape& shape,
                const SimtKnobs& knobs);

}  // namespace heddle::meta
