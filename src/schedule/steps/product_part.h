// A product with the element-wise stages that follow it.
#pragma once

#include <functional>
#include <vector>

#include "heddle/dag/compute_dag.h"
#include "heddle/schedule/stage_group.h"

namespace heddle {

struct ProductPart {
  StageGroup::Part ends;
  std::vector<int> stages;  ///< ascending: the product, the stages after it, and `ends.last`
};

/// The product with the element-wise stages after it, up to the last one from which alone the rest
/// reads. Only stages for which `inside` holds are taken.
ProductPart product_part(const ComputeDag& dag, int product,
                         const std::function<bool(int)>& inside);

}  // namespace heddle
