// The choices for products on a CPU: the register tile, the blocks, the way of the reduction, and the operands to copy, in vectors
// (meta_templates/cpu/products/contraction_rule.h) and in tile registers (meta_templates/cpu/products/tile_rule.h).
#include <algorithm>
#include <cmath>

#include "heddle/heuristics/heuristic.h"
#include "heuristics/choices/draw_contraction.h"

namespace heddle::learning {
namespace {

// The heuristic applies to single products of f32. Widening products, groups of products and chains
// are left to the rule.
bool applies(const Situation& p) {
  const FeatureView& f = p.features;
  return !f.is("narrow") && !f.is("attached") && !f.is("chained") && !f.is("hosts_chain");
}

double remainder(double value, double unit) { return std::fmod(value, std::max(1.0, unit)); }

std::vector<HeuristicFeature> features() {
  const FeatureKind flag = FeatureKind::Boolean;
  return {{"parallel", flag},
          {"cores"},
          {"vector_registers"},
          {"rows"},
          {"cols"},
          {"depth"},
          {"row_group"},
          {"reuse"},
          {"results"},
          {"outer"},
          {"other_rows"},
          {"last_other_rows"},
          {"rows_in_planes", flag},
          {"window"},
          {"window_slides_along_rows", flag},
          {"window_slides_along_vectors", flag},
          {"channels_in_planes"},
          {"vector_constant", flag},
          {"vector_packable", flag},
          {"vector_contiguous", flag},
          {"vector_operand_bytes"},
          {"vector_batch_bytes"},
          {"vector_row_bytes"},
          {"has_row_operand", flag},
          {"row_constant", flag},
          {"row_packable", flag},
          {"row_operand_bytes"},
          {"row_batch_bytes"},
          {"row_run"},
          {"longest_reduction"}};
}

std::vector<AugmentedFeature> augmented() {
  return {{{"multiply_adds"}, [](const FeatureView& f) { return f["results"] * f["depth"]; }},
          {{"intensity"},
           [](const FeatureView& f) {
             return f["results"] * f["depth"] /
                    (f["results"] + (f["vector_operand_bytes"] + f["row_operand_bytes"]) / 4);
           }},
          {{"all_rows"}, [](const FeatureView& f) { return f["rows"] * f["other_rows"]; }},
          {{"cols_past_vectors"},
           [](const FeatureView& f) { return remainder(f["cols"], f["lanes"]); }},
          {{"vectors"}, [](const FeatureView& f) { return std::ceil(f["cols"] / f["lanes"]); }},
          {{"rows_past_8"}, [](const FeatureView& f) { return remainder(f["rows"], 8); }},
          {{"depth_over_results"}, [](const FeatureView& f) { return f["depth"] / f["results"]; }},
          {{"row_batch_of_l2"},
           [](const FeatureView& f) { return f["row_batch_bytes"] / f["l2_bytes"]; }},
          {{"vector_batch_of_l2"},
           [](const FeatureView& f) { return f["vector_batch_bytes"] / f["l2_bytes"]; }}};
}

Heuristic contraction() {
  Heuristic h;
  h.name = "contraction";
  h.version = 2;
  h.about = "CPU products and convolutions: register tile, blocks, cut of the reduction, copies";
  h.target_kind = "llvm";
  h.features = features();
  h.augmented = augmented();
  h.precondition = applies;
  h.draw = [](Rng& rng, const Target&) { return draw_contraction(rng, f32, kMostFlopsOnCpu); };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(contraction());

std::vector<HeuristicFeature> features_of_tiles() {
  const FeatureKind flag = FeatureKind::Boolean;
  return {{"parallel", flag},
          {"cores"},
          {"rows"},
          {"cols"},
          {"depth"},
          {"rows_of_tile"},
          {"outer"},
          {"has_other_rows", flag},
          {"other_rows"},
          {"last_other_rows"},
          {"padded", flag},
          {"copies_rows", flag},
          {"vector_constant", flag},
          {"row_element_bytes"},
          {"row_batch_bytes"}};
}

double tiles_down(const FeatureView& f) { return std::ceil(f["rows"] / f["rows_of_tile"]); }
double tiles_across(const FeatureView& f) { return std::ceil(f["cols"] / 16); }

Heuristic tile_product() {
  Heuristic h;
  h.name = "tile_product";
  h.about = "CPU products in tile registers (AMX): tiles of a product, blocks, copies";
  h.target_kind = "llvm";
  h.features = features_of_tiles();
  h.augmented = {{{"multiply_adds"},
                  [](const FeatureView& f) {
                    return f["rows"] * f["cols"] * f["depth"] * f["outer"] * f["other_rows"];
                  }},
                 {{"tiles_down"}, tiles_down},
                 {{"tiles_across"}, tiles_across},
                 {{"tiles_a_core"},
                  [](const FeatureView& f) {
                    return tiles_down(f) * tiles_across(f) * f["outer"] * f["other_rows"] /
                           f["cores"];
                  }},
                 {{"depth_over_results"},
                  [](const FeatureView& f) {
                    return f["depth"] / (f["rows"] * f["cols"] * f["outer"] * f["other_rows"]);
                  }},
                 {{"row_batch_of_l2"},
                  [](const FeatureView& f) { return f["row_batch_bytes"] / f["l2_bytes"]; }},
                 {{"vector_batch_of_l2"}, [](const FeatureView& f) {
                    return f["cols"] * f["depth"] * f["row_element_bytes"] / f["l2_bytes"];
                  }}};
  h.draw = [](Rng& rng, const Target&) {
    constexpr double kBytes = 0.2;  // share of products of bytes
    return rng.chance(kBytes) ? draw_bytes(rng) : draw_contraction(rng, bf16, kMostFlopsOnCpu);
  };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(tile_product());

}  // namespace
}  // namespace heddle::learning
