// The choice of how threads of a GPU share rows that are reduced
// (meta_templates/cuda/reductions/rows_rule.h).
#include <cmath>

#include "heuristics/choices/draw.h"
#include "heuristics/choices/draw_reduction.h"

namespace heddle::learning {
namespace {

constexpr double kMostElements = 64e6;
constexpr std::int64_t kWarp = 32;

// Whether each lane of a warp gets a vector. Else some lanes of it share a row, as the rule says.
bool fills_warp(const Situation& p) {
  const auto extent = static_cast<std::int64_t>(p.features["extent"]);
  auto vector = static_cast<std::int64_t>(p.features["lanes"]);
  while (vector > 1 && extent % vector != 0) vector /= 2;
  return extent >= kWarp * vector;
}

std::string why_invalid(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  const std::int64_t threads = choice.get("threads", p.rule.value("threads"));
  const std::int64_t rows = choice.get("rows_per_block", 1), cluster = choice.get("cluster", 1);
  if (double(threads) > f["extent"]) return "the row has fewer elements";
  if (rows > 1 && threads > kWarp) return "several rows a block are a warp each";
  if (cluster > 1 && !(f.is("by_clusters") && f.is("has_clusters")))
    return "blocks do not share a row";
  if (double(threads) > f["block_threads"] * double(cluster)) return "a block has fewer threads";
  return "";
}

std::vector<ParameterSet> candidates(const Situation&) {
  std::vector<ParameterSet> all;
  for (const std::int64_t rows : {1, 2, 4, 8, 16}) {
    for (const std::int64_t unroll : {2, 8})
      all.push_back(
          ParameterSet().set("threads", kWarp).set("rows_per_block", rows).set("unroll", unroll));
  }
  for (const std::int64_t threads : {64, 128, 256, 512, 1024}) {
    for (const std::int64_t unroll : {1, 2, 4, 8})
      all.push_back(
          ParameterSet().set("threads", threads).set("rows_per_block", 1).set("unroll", unroll));
  }
  for (const std::int64_t cluster : {2, 4, 8}) {
    for (const std::int64_t threads : {256, 512, 1024})
      all.push_back(ParameterSet()
                        .set("threads", threads * cluster)
                        .set("rows_per_block", 1)
                        .set("cluster", cluster)
                        .set("unroll", 4));
  }
  return all;
}

// A choice that names threads and no cluster is of one block for each row, also where the rule shares rows.
Choice resolve(const ParameterSet& choice, const Situation& p) {
  Choice knobs;
  for (const auto& [name, value] : choice.values()) knobs.set(name, std::get<std::int64_t>(value));
  if (knobs.has("threads") && !knobs.has("cluster") && p.rule.has("cluster"))
    knobs.set("cluster", 1);
  return knobs;
}

Heuristic reduce_rows() {
  Heuristic h;
  h.name = "cuda_reduce_rows";
  h.about = "GPU reductions of rows: threads and blocks a row, rows a block, vectors under way";
  h.target_kind = "cuda";
  const FeatureKind flag = FeatureKind::Boolean;
  h.features = {{"extent"},
                {"lanes"},
                {"rows"},
                {"by_clusters", flag},
                {"heavy", flag},
                {"sms"},
                {"has_clusters", flag}};
  h.augmented = {{{"vectors"}, [](const FeatureView& f) { return f["extent"] / f["lanes"]; }},
                 // Elements of a vector that divides the row: rows of odd lengths are read singly.
                 {{"whole_lanes"},
                  [](const FeatureView& f) {
                    double vector = f["lanes"];
                    while (vector > 1 && std::fmod(f["extent"], vector) != 0) vector /= 2;
                    return vector;
                  }},
                 {{"rows_an_sm"}, [](const FeatureView& f) { return f["rows"] / f["sms"]; }},
                 {{"elements"}, [](const FeatureView& f) { return f["extent"] * f["rows"]; }},
                 {{"past_a_warp"}, [](const FeatureView& f) {
                    return std::fmod(f["extent"], f["lanes"] * static_cast<double>(kWarp));
                  }}};
  h.candidates = candidates;
  h.precondition = fills_warp;
  h.why_invalid = why_invalid;
  h.resolve = resolve;
  h.draw = [](Rng& rng, const Target& target) {
    return draw_reduction(rng, draw_type(rng, target), kMostElements, ReducedAxis::Rows);
  };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(reduce_rows());

}  // namespace
}  // namespace heddle::learning
