// The choice for products on tensor cores: the tile of a block in tiles of an mma, and the number
// of parts of the reduction (meta_templates/cuda/products/tensor_core_rule.h).
#include <algorithm>
#include <array>
#include <cmath>

#include "heuristics/choices/draw_contraction.h"
#include "heuristics/choices/parts_of_depth.h"
#include "heuristics/choices/product_features.h"

namespace heddle {
namespace {

constexpr double kMostFlops = 1e12;
constexpr std::array kTile{"row_tiles", "row_warps", "col_tiles", "col_warps"};

std::string why_invalid(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  if (choice.has("row_tiles")) {
    const auto value = [&](const char* name) { return double(choice.get(name, 1)); };
    const double rows = 16 * value("row_tiles") * value("row_warps");
    const double cols = 8 * value("col_tiles") * value("col_warps");
    if (rows >= 2 * f["rows"] && rows > 16) return "half of the tile's rows are of no use";
    if (cols >= 2 * f["cols"] && cols > 8) return "half of the tile's columns are of no use";
  }
  return why_no_parts(choice, p);
}

Choice resolve(const ParameterSet& choice, const Situation& p) {
  Choice knobs = parts_knobs(choice, p, "depth");
  for (const char* name :
       {"row_tiles", "row_warps", "col_tiles", "col_warps", "tile_k", "stages", "channels_last"}) {
    if (choice.has(name)) knobs.set(name, choice.get(name, 1));
  }
  return knobs;
}

struct Tile {
  std::array<std::int64_t, 4> knobs;  // in the order of kTile
  std::vector<std::int64_t> parts;    // beside the number that the rule chose
};

std::vector<ParameterSet> candidates(const Situation& p) {
  std::vector<ParameterSet> all;
  for (const Tile& t : std::vector<Tile>{{{4, 2, 8, 2}, {1}},     // 128 x 128, 4 warps
                                         {{4, 2, 8, 4}, {1}},     // 128 x 256
                                         {{4, 1, 8, 2}, {1}},     // 64 x 128
                                         {{2, 2, 4, 2}, {1, 8}},  // 64 x 64
                                         {{4, 1, 4, 2}, {1}},     // 64 x 64, 2 warps
                                         {{2, 1, 4, 4}, {}},      // 32 x 128
                                         {{2, 1, 4, 2}, {1, 8}},  // 32 x 64
                                         {{1, 2, 2, 2}, {1, 8}},  // 32 x 32
                                         {{1, 1, 4, 4}, {8}},     // 16 x 128
                                         {{1, 1, 2, 4}, {1, 8}},  // 16 x 64
                                         {{4, 4, 1, 1}, {1}}}) {  // 256 x 8
    ParameterSet tile;
    for (std::size_t i = 0; i < t.knobs.size(); ++i) tile.set(kTile[i], t.knobs[i]);
    // The number of stages that the rule chose fits only the tile that it chose.
    tile.set("stages", 3).set("tile_k", 2);
    all.push_back(tile);
    for (const std::int64_t parts : t.parts) all.push_back(ParameterSet(tile).set("parts", parts));
  }
  for (const std::int64_t parts : {1, 2, 4, 8, 16, 32, 64})
    all.push_back(ParameterSet().set("parts", parts));
  for (const auto& [k, stages] : {std::pair{1, 2}, {1, 4}, {2, 4}, {4, 3}, {4, 4}})
    all.push_back(ParameterSet().set("tile_k", k).set("stages", stages));
  if (p.rule.has("channels_last")) {
    for (const std::int64_t last : {0, 1}) all.push_back(ParameterSet().set("channels_last", last));
  }
  return all;
}

Heuristic tensor_core() {
  Heuristic h;
  h.name = "cuda_tensor_core";
  h.version = 2;
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
  for (const char* name : kTile) h.parameters.push_back({name});
  for (const char* name : {"tile_k", "stages", "parts", "channels_last"})
    h.parameters.push_back({name});
  h.candidates = candidates;
  h.why_invalid = why_invalid;
  h.resolve = resolve;
  h.draw = [](Rng& rng, const Target&) {
    return draw_contraction(rng, rng.chance(0.6) ? bf16 : f16, kMostFlops);
  };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(tensor_core());

}  // namespace
}  // namespace heddle
