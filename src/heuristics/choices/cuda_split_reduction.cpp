// The choice of the number of parts into which a GPU cuts a reduction of few results (split-K of
// reductions that stream memory, meta_templates/cuda/reductions/simple_reduction_rule.h).
#include <algorithm>
#include <cmath>

#include "heuristics/choices/draw.h"
#include "heuristics/choices/draw_reduction.h"

namespace heddle::learning {
namespace {

constexpr double kMostElements = 64e6;
// The template offers at most this number of parts (part_lengths).
constexpr std::int64_t kMostParts = 256;
constexpr double kWarp = 32;

// Blocks of the uncut reduction: one for each row, or one for each strip of columns.
double blocks(const FeatureView& f) {
  if (!f.is("by_columns")) return f["results"];
  return f["results"] / f["columns"] * std::ceil(f["columns"] / (kWarp * f["lanes"]));
}

// Steps of a block along the reduction: rows of a strip of columns, or accesses of a warp to a row.
double steps(const FeatureView& f) {
  if (f.is("by_columns")) return f["cut_extent"];
  const double row = f["extent"] / (kWarp * f["lanes"]);
  return f.is("cuts_row") ? row : row * f["cut_extent"];
}

// The number of parts that fills the multiprocessors with parts of at least `least_steps` steps.
// The template offers powers of two.
std::int64_t parts_of(const ParameterSet& choice, const FeatureView& f) {
  const double wanted = double(choice.get("parts_an_sm", 0)) * f["sms"] / blocks(f);
  const double most = steps(f) / double(choice.get("least_steps", 1));
  std::int64_t parts = 1;
  while (parts < kMostParts && double(parts) < std::min(wanted, most)) parts *= 2;
  return parts;
}

std::string why_invalid(const ParameterSet& choice, const Situation& p) {
  return double(parts_of(choice, p.features)) > p.features["cut_extent"] ? "the axis is shorter"
                                                                         : "";
}

Choice resolve(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  const std::int64_t parts = parts_of(choice, f);
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
  h.version = 2;
  h.about = "GPU reductions: into how many parts a reduction of few results is cut";
  h.target_kind = "cuda";
  const FeatureKind flag = FeatureKind::Boolean;
  h.features = {{"by_rows", flag},  {"by_columns", flag}, {"extent"}, {"cut_extent"},
                {"cuts_row", flag}, {"columns"},          {"lanes"},  {"results"},
                {"bytes"},          {"heavy", flag},      {"sms"}};
  h.augmented = {
      {{"blocks_an_sm"}, [](const FeatureView& f) { return blocks(f) / f["sms"]; }},
      {{"steps"}, [](const FeatureView& f) { return steps(f); }},
      {{"steps_over_blocks"}, [](const FeatureView& f) { return steps(f) / blocks(f); }}};
  h.parameters = {{"parts_an_sm"}, {"least_steps"}};
  h.candidates = [](const Situation&) {
    std::vector<ParameterSet> all{ParameterSet().set("parts_an_sm", 0)};
    for (const std::int64_t parts : {1, 2, 4, 8}) {
      for (const std::int64_t least : {4, 16, 64, 256})
        all.push_back(ParameterSet().set("parts_an_sm", parts).set("least_steps", least));
    }
    return all;
  };
  h.why_invalid = why_invalid;
  h.resolve = resolve;
  h.draw = [](Rng& rng, const Target& target) {
    const DataType type = draw_type(rng, target);
    return draw_reduction(rng, type, kMostElements,
                          rng.chance(0.5) ? ReducedAxis::Rows : ReducedAxis::Columns);
  };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(split_reduction());

}  // namespace
}  // namespace heddle::learning
