// The choice for products on tensor cores: the tile of a block in tiles of an mma, and the number
// of parts of the reduction (meta_templates/cuda/products/tensor_core_rule.h).
#include "heuristics/choices/draw_contraction.h"
#include "heuristics/choices/product_features.h"

namespace heddle::learning {
namespace {

constexpr double kMostFlops = 1e12;

Heuristic tensor_core() {
  Heuristic h;
  h.name = "cuda_tensor_core";
  h.version = 3;
  h.about = "GPU products on tensor cores: the tile of a block, parts of the reduction, copies";
  h.target_kind = "cuda";
  h.features = tensor_core_facts();
  for (const std::string operand : {"row_operand_", "col_operand_"}) {
    for (const char* fact : {"copied", "constant", "by_elements", "along_depth"})
      h.features.push_back({operand + fact, FeatureKind::Boolean});
  }
  h.features.push_back({"sms"});
  h.augmented = {multiply_adds("batch"), blocks_an_sm("tiles_of_128_an_sm", "batch", 128, 128),
                 blocks_an_sm("tiles_of_64_an_sm", "batch", 64, 64), depth_over_results("batch"),
                 rows_over_cols()};
  h.draw = [](Rng& rng, const Target&) {
    return draw_contraction(rng, rng.chance(0.6) ? bf16 : f16, kMostFlops);
  };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(tensor_core());

}  // namespace
}  // namespace heddle::learning
