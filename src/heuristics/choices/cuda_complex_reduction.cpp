// The choice for products on a GPU without tensor cores: the tile of a block and of a thread, and
// the number of parts of the reduction (meta_templates/cuda/products/complex_reduction_rule.h).
#include <cmath>

#include "heuristics/choices/draw_contraction.h"
#include "heuristics/choices/product_features.h"

namespace heddle::learning {
namespace {

constexpr double kMostFlops = 3e11;

Heuristic simt() {
  Heuristic h;
  h.name = "cuda_complex_reduction";
  h.version = 2;
  h.about = "GPU products without tensor cores: the tile of a block, parts of the reduction";
  h.target_kind = "cuda";
  h.features = {{"rows"},
                {"cols"},
                {"depth"},
                {"others"},
                {"step_depth"},
                {"operand_bytes"},
                {"commutative", FeatureKind::Boolean},
                {"sms"}};
  h.augmented = {multiply_adds("others"),
                 blocks_an_sm("tiles_of_64_an_sm", "others", 64, 64),
                 depth_over_results("others"),
                 rows_over_cols(),
                 {{"cols_past_4"}, [](const FeatureView& f) { return std::fmod(f["cols"], 4.0); }}};
  h.draw = [](Rng& rng, const Target&) { return draw_contraction(rng, f32, kMostFlops); };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(simt());

}  // namespace
}  // namespace heddle::learning
