// The choice into how many parts a GPU cuts a reduction of few results
// (meta_templates/cuda/simple_reduction_rule.h): split-K of what streams memory.
#include <cmath>

#include "heuristics/draw_reduction.h"

namespace heddle {
namespace {

constexpr double kMostElements = 64e6;

std::string why_invalid(const ParameterSet& choice, const Situation& p) {
  return double(choice.get("parts", 1)) > p.features["cut_extent"] ? "the axis is shorter" : "";
}

Choice resolve(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  const std::int64_t parts = choice.get("parts", 1);
  Choice knobs;
  knobs.set("split_reduction", parts > 1);
  if (parts == 1) return knobs;
  const auto extent = static_cast<std::int64_t>(f["cut_extent"]);
  std::int64_t length = (extent + parts - 1) / parts;
  if (f.is("by_rows") && f.is("cuts_row")) {  // whole accesses of a warp
    const std::int64_t warp = 32 * static_cast<std::int64_t>(f["lanes"]);
    length = (length + warp - 1) / warp * warp;
  }
  knobs.set("part_length", length);
  return knobs;
}

Heuristic split_reduction() {
  Heuristic h;
  h.name = "cuda_split_reduction";
  h.about = "GPU reductions: into how many parts a reduction of few results is cut";
  h.target_kind = "cuda";
  const FeatureKind flag = FeatureKind::Boolean;
  h.features = {{"by_rows", flag},  {"by_columns", flag}, {"extent"}, {"cut_extent"},
                {"cuts_row", flag}, {"columns"},          {"lanes"},  {"results"},
                {"bytes"},          {"heavy", flag},      {"sms"}};
  h.augmented = {
      {{"results_an_sm"}, [](const FeatureView& f) { return f["results"] / f["sms"]; }},
      {{"strips_an_sm"},
       [](const FeatureView& f) {
         return f["results"] / f["columns"] * std::ceil(f["columns"] / (32 * f["lanes"])) /
                f["sms"];
       }},
      {{"cut_over_results"}, [](const FeatureView& f) { return f["cut_extent"] / f["results"]; }}};
  h.parameters = {{"parts"}};
  h.candidates = [](const Situation&) {
    std::vector<ParameterSet> all;
    for (std::int64_t parts = 1; parts <= 2048; parts *= 2)
      all.push_back(ParameterSet().set("parts", parts));
    return all;
  };
  h.why_invalid = why_invalid;
  h.resolve = resolve;
  h.draw = [](Rng& rng, const Target&) {
    return draw_reduction(rng, rng.chance(0.7) ? f32 : bf16, kMostElements,
                          rng.chance(0.5) ? ReducedAxis::Rows : ReducedAxis::Columns);
  };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(split_reduction());

}  // namespace
}  // namespace heddle
