// The choice for products on a GPU without tensor cores: the tile of a block and of a thread, and
// the number of parts of the reduction (meta_templates/cuda/products/complex_reduction_rule.h).
#include <algorithm>
#include <array>
#include <cmath>

#include "heuristics/choices/draw_contraction.h"
#include "heuristics/choices/parts_of_depth.h"
#include "heuristics/choices/product_features.h"

namespace heddle {
namespace {

constexpr double kMostFlops = 3e11;
constexpr std::array kTile{"group_rows", "row_groups", "row_threads", "col_threads", "col_groups"};

std::string why_invalid(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  if (choice.has("group_rows")) {
    const auto value = [&](const char* name) { return double(choice.get(name, 1)); };
    const double threads = value("row_threads") * value("col_threads");
    const double rows = value("group_rows") * value("row_groups") * value("row_threads");
    if (threads > f["block_threads"]) return "a block has fewer threads";
    if (rows >= 2 * f["rows"] && rows > 1) return "half of the tile's rows are of no use";
    const double groups = value("col_threads") * value("col_groups");
    if (4 * groups >= 2 * f["cols"] && groups > 4)
      return "half of the tile's columns are of no use";
  }
  return why_no_parts(choice, p);
}

Choice resolve(const ParameterSet& choice, const Situation& p) {
  Choice knobs = parts_knobs(choice, p, "step_depth");
  for (const char* name : kTile) {
    if (choice.has(name)) knobs.set(name, choice.get(name, 1));
  }
  for (const char* name : {"tile_k", "stages"}) {
    if (choice.has(name)) knobs.set(name, choice.get(name, 1));
  }
  return knobs;
}

struct Tile {
  std::array<std::int64_t, 5> knobs;  // in the order of kTile
  bool in_parts;                      // also with the depth in 16 parts
};

std::vector<ParameterSet> candidates(const Situation&) {
  std::vector<ParameterSet> all;
  for (const Tile& t : std::vector<Tile>{{{4, 2, 16, 16, 2}, false},   // 128 x 128
                                         {{4, 2, 8, 16, 2}, false},    // 64 x 128
                                         {{4, 2, 8, 8, 2}, true},      // 64 x 64, 64 threads
                                         {{4, 1, 16, 16, 1}, true},    // 64 x 64, 256 threads
                                         {{4, 1, 8, 16, 1}, true},     // 32 x 64
                                         {{4, 1, 16, 8, 1}, false},    // 64 x 32
                                         {{4, 1, 8, 8, 1}, true},      // 32 x 32
                                         {{2, 1, 8, 16, 1}, true},     // 16 x 64
                                         {{2, 1, 8, 8, 1}, true},      // 16 x 32
                                         {{1, 1, 8, 32, 1}, true},     // 8 x 128
                                         {{1, 1, 8, 8, 1}, true},      // 8 x 32
                                         {{1, 1, 2, 64, 1}, true},     // 2 x 256
                                         {{1, 1, 1, 32, 1}, true},     // 1 x 128
                                         {{1, 1, 16, 4, 1}, true}}) {  // 16 x 16
    ParameterSet tile;
    for (std::size_t i = 0; i < t.knobs.size(); ++i) tile.set(kTile[i], t.knobs[i]);
    all.push_back(tile);
    if (t.in_parts) all.push_back(ParameterSet(tile).set("parts", 16));
  }
  for (const std::int64_t parts : {1, 2, 4, 8, 16, 32, 64})
    all.push_back(ParameterSet().set("parts", parts));
  for (const std::int64_t k : {8, 16, 32}) all.push_back(ParameterSet().set("tile_k", k));
  for (const std::int64_t stages : {2, 4}) all.push_back(ParameterSet().set("stages", stages));
  return all;
}

Heuristic simt() {
  Heuristic h;
  h.name = "cuda_complex_reduction";
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
  for (const char* name : kTile) h.parameters.push_back({name});
  for (const char* name : {"tile_k", "stages", "parts"}) h.parameters.push_back({name});
  h.candidates = candidates;
  h.why_invalid = why_invalid;
  h.resolve = resolve;
  h.draw = [](Rng& rng, const Target&) { return draw_contraction(rng, f32, kMostFlops); };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(simt());

}  // namespace
}  // namespace heddle
