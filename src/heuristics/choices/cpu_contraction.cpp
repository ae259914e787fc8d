// The choice for complex reductions on a CPU: the register tile, the blocks, the way of the
// reduction, and the operands to copy (meta_templates/cpu/products/contraction_rule.h).
#include <algorithm>
#include <cmath>

#include "heddle/heuristics/heuristic.h"
#include "heuristics/choices/draw_contraction.h"

namespace heddle {
namespace {

// The values of the template's knobs with these names.
enum Reduction : std::int64_t { kWhole, kKBlocked, kSplitK };
enum PackVectors : std::int64_t { kAsItLies, kPackWhole, kPackPanels };
enum PackBroadcasts : std::int64_t { kBroadcastAsItLies, kPackTiles };

std::int64_t whole(double x) { return static_cast<std::int64_t>(x); }
std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

/// The largest of `offered` that is at most `most`.
std::int64_t at_most(std::int64_t value, std::int64_t most,
                     const std::vector<std::int64_t>& offered) {
  std::int64_t best = 1;
  for (const std::int64_t v : offered) {
    if (v <= std::min(value, most)) best = std::max(best, v);
  }
  return best;
}

struct Tile {
  std::int64_t rows = 1, vectors = 1;
};

// The tile that a set of parameters means for a problem: no larger than the problem.
Tile tile_of(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  const std::int64_t rows = whole(f["rows"]), lanes = whole(f["lanes"]);
  const std::int64_t vectors = ceil_div(whole(f["cols"]), lanes);
  Tile tile{p.rule.value("tile_rows"), p.rule.value("tile_cols") / lanes};
  if (choice.has("tile_rows"))
    tile.rows = at_most(choice.get("tile_rows", 1), rows, {1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 14});
  if (choice.has("tile_vectors")) {
    std::vector<std::int64_t> offered{1, 2, 3, 4};
    if (rows == 1) offered.insert(offered.end(), {6, 8, 12});
    tile.vectors = at_most(choice.get("tile_vectors", 1), vectors, offered);
  }
  return tile;
}

bool fits_registers(const Tile& tile, const FeatureView& f) {
  const bool folded = tile.vectors == 1 && f["vector_bytes"] >= 64;
  const std::int64_t taken = tile.rows * tile.vectors + tile.vectors + (folded ? 0 : 1);
  return taken <= whole(f["vector_registers"]);
}

std::string why_invalid(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  if (!fits_registers(tile_of(choice, p), f)) return "the register tile does not fit the registers";
  const std::int64_t packing = choice.get("pack_vectors", kAsItLies);
  if (choice.has("pack_vectors") && !(f.is("vector_packable") && f.is("has_row_operand")))
    return "vectors of the operand cannot be packed";
  if (packing == kPackPanels && f.is("vector_constant")) return "a constant is packed once";
  if (choice.has("pack_broadcasts") && !f.is("row_packable"))
    return "the broadcast operand cannot be packed";
  const std::int64_t reduction = choice.get("reduction", kWhole);
  if (choice.has("reduction") && reduction != kWhole && !f.is("can_cut"))
    return "the reduction cannot be cut";
  constexpr double kShortest = 64, kStepsACore = 8;
  const double k = f["longest_reduction"];
  if (reduction == kKBlocked && (k < kShortest || double(choice.get("k_block", 1)) >= k))
    return "the reduction is one block";
  if (reduction == kSplitK && (f["cores"] == 1 || k < kStepsACore * f["cores"]))
    return "the reduction is too short for the cores";
  if (choice.has("channels_last") && f["channels_in_planes"] == 0)
    return "the channels are no planes";
  return "";
}

// The number of tiles in a block of a nearly equal cut of `extent` elements.
std::int64_t tiles_a_block(std::int64_t extent, std::int64_t tile, std::int64_t block) {
  const std::int64_t tiles = ceil_div(extent, tile), most = std::max<std::int64_t>(1, block / tile);
  return ceil_div(tiles, ceil_div(tiles, most));
}

Choice resolve(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  const std::int64_t rows = whole(f["rows"]), cols = whole(f["cols"]), lanes = whole(f["lanes"]);
  const Tile tile = tile_of(choice, p);
  Choice knobs;
  if (choice.has("tile_rows")) knobs.set("tile_rows", tile.rows);
  if (choice.has("tile_vectors")) knobs.set("tile_cols", tile.vectors * lanes);
  for (const char* same :
       {"unroll_k", "pack_vectors", "pack_broadcasts", "reduction", "channels_last"}) {
    if (choice.has(same)) knobs.set(same, choice.get(same, 0));
  }
  if (choice.has("k_block")) {
    const std::int64_t k = whole(f["longest_reduction"]);
    knobs.set("k_block", ceil_div(k, ceil_div(k, choice.get("k_block", k))));
  }
  if (choice.has("rows_a_block"))
    knobs.set("row_block_tiles", tiles_a_block(rows, tile.rows, choice.get("rows_a_block", rows)));
  if (choice.has("cols_a_block"))
    knobs.set("col_block_tiles",
              tiles_a_block(cols, tile.vectors * lanes, choice.get("cols_a_block", cols)));
  return knobs;
}

ParameterSet tile(std::int64_t rows, std::int64_t vectors) {
  return ParameterSet().set("tile_rows", rows).set("tile_vectors", vectors);
}

// Parameter sets that tuning found to win on some machine. Each differs from the rule in one or two
// knobs.
std::vector<ParameterSet> changes() {
  std::vector<ParameterSet> all;
  const auto add = [&](std::vector<std::pair<const char*, std::int64_t>> values) {
    ParameterSet set;
    for (const auto& [name, value] : values) set.set(name, value);
    all.push_back(set);
  };
  for (const std::int64_t packing : {kAsItLies, kPackWhole, kPackPanels}) {
    add({{"pack_vectors", packing}});
    for (const std::int64_t rows : {kBroadcastAsItLies, kPackTiles})
      add({{"pack_vectors", packing}, {"pack_broadcasts", rows}});
  }
  for (const std::int64_t rows : {kBroadcastAsItLies, kPackTiles}) add({{"pack_broadcasts", rows}});
  for (const std::int64_t block : {256, 512, 1024}) {
    add({{"reduction", kKBlocked}, {"k_block", block}});
    add({{"reduction", kKBlocked}, {"k_block", block}, {"pack_vectors", kPackPanels}});
  }
  add({{"reduction", kKBlocked}, {"k_block", 512}, {"pack_vectors", kPackWhole}});
  add({{"reduction", kWhole}});
  add({{"reduction", kSplitK}});
  add({{"reduction", kSplitK}, {"pack_vectors", kAsItLies}});
  for (const std::int64_t rows : {32, 96, 256}) add({{"rows_a_block", rows}});
  for (const std::int64_t cols : {64, 256}) add({{"cols_a_block", cols}});
  add({{"rows_a_block", 96}, {"cols_a_block", 256}});
  for (const std::int64_t steps : {1, 2}) add({{"unroll_k", steps}});
  for (const std::int64_t last : {0, 1}) add({{"channels_last", last}});
  return all;
}

// The rule's score picks one tile for all problems that a machine treats alike. Its neighbours are
// tried alone, and some of them together with the copies and blocks of large problems.
std::vector<ParameterSet> candidates(const Situation& p) {
  std::vector<ParameterSet> all = changes();
  const bool wide = p.features["vector_registers"] >= 32;
  std::vector<Tile> tiles{{1, 4}, {2, 4}, {4, 2}, {4, 3}, {4, 4}, {6, 1}, {6, 2}, {8, 1}, {12, 1}};
  if (p.features["rows"] == 1)
    tiles = {{1, 2}, {1, 4}, {1, 6}, {1, 8}, {1, 12}};
  else if (wide)
    tiles.insert(tiles.end(), {{6, 4}, {8, 2}, {8, 3}, {10, 2}, {12, 2}, {14, 2}});
  else
    tiles.insert(tiles.end(), {{2, 2}, {3, 4}, {3, 3}, {5, 2}, {14, 1}});
  for (const Tile& t : tiles) all.push_back(tile(t.rows, t.vectors));
  const std::vector<Tile> joint =
      wide ? std::vector<Tile>{{6, 4}, {8, 3}, {12, 2}} : std::vector<Tile>{{4, 3}, {6, 2}};
  for (const Tile& t : joint) {
    const ParameterSet of = tile(t.rows, t.vectors);
    all.push_back(ParameterSet(of).set("pack_vectors", kAsItLies));
    all.push_back(ParameterSet(of).set("pack_vectors", kPackPanels));
    all.push_back(
        ParameterSet(of).set("pack_vectors", kPackWhole).set("pack_broadcasts", kPackTiles));
    all.push_back(ParameterSet(of)
                      .set("pack_vectors", kPackPanels)
                      .set("reduction", kKBlocked)
                      .set("k_block", 512));
  }
  return all;
}

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
  h.about = "CPU products and convolutions: register tile, blocks, cut of the reduction, copies";
  h.target_kind = "llvm";
  h.features = features();
  h.augmented = augmented();
  h.parameters = {{"tile_rows"},
                  {"tile_vectors"},
                  {"unroll_k"},
                  {"reduction", {"whole", "k_blocked", "split_k"}},
                  {"k_block"},
                  {"pack_vectors", {"as_it_lies", "whole", "panels"}},
                  {"pack_broadcasts", {"as_it_lies", "tiles"}},
                  {"rows_a_block"},
                  {"cols_a_block"},
                  {"channels_last"}};
  h.precondition = applies;
  h.candidates = candidates;
  h.why_invalid = why_invalid;
  h.resolve = resolve;
  h.draw = [](Rng& rng, const Target&) { return draw_contraction(rng, f32, kMostFlopsOnCpu); };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(contraction());

}  // namespace
}  // namespace heddle
