// The choice between warp groups and mma.sync for products that both can compute, and the tile of
// warp groups (meta_templates/cuda/products/warp_group.h).
#include "heuristics/choices/draw_contraction.h"
#include "heuristics/choices/product_features.h"

namespace heddle::learning {
namespace {

constexpr double kMostFlops = 4e11;

Heuristic warp_group() {
  Heuristic h;
  h.name = "cuda_warp_group";
  h.version = 2;
  h.about = "GPU products on Hopper: warp groups or mma.sync, and the tile of warp groups";
  h.target_kind = "cuda";
  h.features = tensor_core_facts();
  for (const char* name : {"row_operand_along_depth", "cols_lie_across"})
    h.features.push_back({name, FeatureKind::Boolean});
  h.features.push_back({"sms"});
  h.augmented = {multiply_adds("batch"),
                 blocks_an_sm("blocks_of_128_an_sm", "batch", 128, 128),
                 blocks_an_sm("blocks_of_128_by_64_an_sm", "batch", 128, 64),
                 idle_share("idle_of_128_by_128", "batch", 128, 128),
                 idle_share("idle_of_128_by_256", "batch", 128, 256),
                 depth_over_results("batch"),
                 rows_over_cols(),
                 {{"group_over_mma_cycles"},
                  [](const FeatureView& f) { return f["group_cycles"] / f["mma_cycles"]; }}};
  h.draw = [](Rng& rng, const Target&) {
    return draw_aligned_product(rng, rng.chance(0.6) ? bf16 : f16, kMostFlops);
  };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(warp_group());

}  // namespace
}  // namespace heddle::learning
