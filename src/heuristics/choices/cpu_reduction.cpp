// The choice for reductions that stream memory on a CPU: whether they are cut into parts, and the
// numbers of accumulators, rows at a time and columns
// (meta_templates/cpu/reductions/reduction_rule.h).
#include <algorithm>
#include <cmath>

#include "heuristics/choices/draw_reduction.h"

namespace heddle {
namespace {

constexpr double kMostElements = 16e6;

std::int64_t whole(double x) { return static_cast<std::int64_t>(x); }

std::string why_invalid(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  constexpr double kLeastStepsACore = 4;
  const bool split = choice.get("split", p.rule.value("split_reduction")) != 0;
  if (split && (!f.is("can_split") || f["cut_length"] < kLeastStepsACore * f["cores"]))
    return "the reduction cannot be cut into parts";
  if (choice.has("parts_a_core") && !split) return "the reduction has no parts";
  if (choice.has("vectors") && !f.is("along_row")) return "columns have no accumulators of a row";
  if (choice.has("tile_vectors") && (f.is("along_row") || f.is("scalar")))
    return "there are no columns";
  if (choice.has("prefetch_rows") && !f.is("attached")) return "no row of a group comes next";
  if (f.is("terms_compute") && choice.get("vectors", 2) < 2) return "terms take two vectors";
  return "";
}

// The knobs of the parts have the same names with the prefix "part_".
Choice resolve(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  const std::int64_t lanes = whole(f["lanes"]), cores = whole(f["cores"]);
  Choice knobs;
  const auto both = [&](const std::string& name, std::int64_t value) {
    for (const char* prefix : {"", "part_"}) knobs.set(prefix + name, value);
  };
  if (choice.has("split")) knobs.set("split_reduction", choice.get("split", 0));
  if (choice.has("parts_a_core")) {
    const std::int64_t parts = cores * choice.get("parts_a_core", 1);
    knobs.set("part_length", (whole(f["cut_length"]) + parts - 1) / parts);
  }
  if (choice.has("vectors")) both("lanes_unroll", choice.get("vectors", 1) * lanes);
  if (choice.has("streams")) both("streams", choice.get("streams", 1));
  if (choice.has("prefetch_rows")) knobs.set("prefetch_rows", choice.get("prefetch_rows", 0));
  if (choice.has("tile_vectors")) both("tile", choice.get("tile_vectors", 1) * lanes);
  return knobs;
}

std::vector<ParameterSet> candidates(const Situation& p) {
  std::vector<ParameterSet> all;
  const auto with_split = [&](const ParameterSet& set) {
    all.push_back(set);
    all.push_back(ParameterSet(set).set("split", 0));
    all.push_back(ParameterSet(set).set("split", 1));
  };
  all.push_back(ParameterSet().set("split", 0));
  for (const std::int64_t rows : {0, 1, 2})
    all.push_back(ParameterSet().set("prefetch_rows", rows));
  for (const std::int64_t parts : {1, 4})
    all.push_back(ParameterSet().set("split", 1).set("parts_a_core", parts));
  if (p.features.is("along_row")) {
    for (const std::int64_t vectors : {1, 2, 4, 8}) {
      for (const std::int64_t streams : {1, 2, 4, 8}) {
        if (vectors * streams <= 16)
          with_split(ParameterSet().set("vectors", vectors).set("streams", streams));
      }
    }
  } else {
    for (const std::int64_t vectors : {1, 4, 16, 64}) {
      for (const std::int64_t streams : {1, 4, 8, 16})
        with_split(ParameterSet().set("tile_vectors", vectors).set("streams", streams));
    }
  }
  return all;
}

Heuristic reduction() {
  Heuristic h;
  h.name = "reduction";
  h.about = "CPU reductions that stream memory: parts, accumulators, rows and columns at a time";
  h.target_kind = "llvm";
  const FeatureKind flag = FeatureKind::Boolean;
  h.features = {{"parallel", flag},
                {"cores"},
                {"along_row", flag},
                {"scalar", flag},
                {"one_row", flag},
                {"has_epilogue", flag},
                {"can_split", flag},
                {"element_bytes"},
                {"results"},
                {"columns"},
                {"rows"},
                {"row_length"},
                {"part_row_length"},
                {"cut_length"},
                {"bytes"},
                {"computes", flag},
                {"terms_compute", flag},
                {"attached", flag},
                {"reads_again", flag},
                {"beside_stores", flag}};
  h.augmented = {
      {{"bytes_of_l2"}, [](const FeatureView& f) { return f["bytes"] / f["l2_bytes"]; }},
      {{"bytes_of_l3"},
       [](const FeatureView& f) { return f["bytes"] / std::max(1.0, f["l3_bytes"]); }},
      {{"results_a_core"}, [](const FeatureView& f) { return f["results"] / f["cores"]; }},
      {{"row_past_vectors"},
       [](const FeatureView& f) { return std::fmod(f["row_length"], f["lanes"]); }},
      {{"row_vectors"}, [](const FeatureView& f) { return f["row_length"] / f["lanes"]; }},
      {{"column_vectors"}, [](const FeatureView& f) { return f["columns"] / f["lanes"]; }},
      {{"cut_steps_a_core"}, [](const FeatureView& f) { return f["cut_length"] / f["cores"]; }}};
  h.parameters = {{"split"},   {"parts_a_core"}, {"vectors"},
                  {"streams"}, {"tile_vectors"}, {"prefetch_rows"}};
  h.precondition = [](const Situation& p) { return p.features["outputs"] == 1; };
  h.candidates = candidates;
  h.why_invalid = why_invalid;
  h.resolve = resolve;
  h.draw = [](Rng& rng, const Target&) { return draw_reduction(rng, f32, kMostElements); };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(reduction());

}  // namespace
}  // namespace heddle
