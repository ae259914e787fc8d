// The choice between warp groups and mma.sync for products that both can compute, and the tile of
// warp groups (meta_templates/cuda/products/warp_group.h).
#include <algorithm>
#include <array>
#include <cmath>

#include "heuristics/choices/draw_contraction.h"
#include "heuristics/choices/product_features.h"

namespace heddle {
namespace {

constexpr double kMostFlops = 4e11;

enum Unit : std::int64_t { kMmaSync, kWarpGroups };

struct Tile {
  std::int64_t groups, tiles, cols;
};

std::string why_invalid(const ParameterSet& choice, const Situation& p) {
  if (choice.get("unit", kWarpGroups) == kMmaSync) return "";
  const FeatureView& f = p.features;
  const auto value = [&](const char* name) {
    return double(choice.has(name) ? choice.get(name, 1) : p.rule.value(name));
  };
  const double rows = 64 * value("group_tiles") * value("groups"), cols = value("group_cols");
  if (rows >= 2 * f["rows"] && rows > 64) return "half of the tile's rows are of no use";
  if (cols >= 2 * f["cols"] && cols > 32) return "half of the tile's columns are of no use";
  if (f.is("cols_lie_across") && std::fmod(cols, 64) != 0)
    return "columns across the depth are taken by 64";
  if (blocks_of(f, "batch", rows, cols) < 2) return "there is one tile only";
  return "";
}

Choice resolve(const ParameterSet& choice, const Situation&) {
  Choice knobs;
  for (const auto& [name, value] : choice.values()) knobs.set(name, value);
  return knobs;
}

std::vector<ParameterSet> candidates(const Situation&) {
  std::vector<ParameterSet> all{ParameterSet().set("unit", kMmaSync),
                                ParameterSet().set("unit", kWarpGroups)};
  for (const Tile& t : std::array<Tile, 13>{{{2, 1, 256},
                                             {2, 1, 192},
                                             {2, 1, 160},
                                             {2, 1, 128},
                                             {2, 1, 96},
                                             {2, 1, 64},
                                             {2, 2, 128},
                                             {2, 2, 64},
                                             {1, 1, 256},
                                             {1, 1, 128},
                                             {1, 1, 64},
                                             {1, 1, 32},
                                             {1, 2, 64}}}) {
    all.push_back(ParameterSet()
                      .set("unit", kWarpGroups)
                      .set("groups", t.groups)
                      .set("group_tiles", t.tiles)
                      .set("group_cols", t.cols));
  }
  for (const std::int64_t raster : {1, 4})
    all.push_back(ParameterSet().set("unit", kWarpGroups).set("raster", raster));
  return all;
}

Heuristic warp_group() {
  Heuristic h;
  h.name = "cuda_warp_group";
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
  h.parameters = {
      {"unit", {"mma_sync", "wgmma"}}, {"groups"}, {"group_tiles"}, {"group_cols"}, {"raster"}};
  h.candidates = candidates;
  h.why_invalid = why_invalid;
  h.resolve = resolve;
  h.draw = [](Rng& rng, const Target&) {
    return draw_aligned_product(rng, rng.chance(0.6) ? bf16 : f16, kMostFlops);
  };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(warp_group());

}  // namespace
}  // namespace heddle
