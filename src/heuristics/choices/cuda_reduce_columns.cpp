// The choice of how threads of a GPU share columns that are reduced
// (meta_templates/cuda/reductions/columns_rule.h).
#include "heuristics/choices/draw.h"
#include "heuristics/choices/draw_reduction.h"

namespace heddle::learning {
namespace {

constexpr double kMostElements = 64e6;

std::string why_invalid(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  const double threads = double(choice.get("threads_across", p.rule.value("threads_across"))) *
                         double(choice.get("threads_down", p.rule.value("threads_down")));
  if (threads > f["block_threads"]) return "a block has fewer threads";
  if (threads * f["lanes"] * f["value_bytes"] > f["smem_per_block_bytes"])
    return "the parts do not fit shared memory";
  return "";
}

std::vector<ParameterSet> candidates(const Situation&) {
  std::vector<ParameterSet> all;
  for (const std::int64_t across : {4, 8, 16, 32, 64}) {
    for (const std::int64_t down : {1, 4, 8, 16, 32}) {
      for (const std::int64_t unroll : {4, 8})
        all.push_back(ParameterSet()
                          .set("threads_across", across)
                          .set("threads_down", down)
                          .set("unroll", unroll));
    }
  }
  return all;
}

Heuristic reduce_columns() {
  Heuristic h;
  h.name = "cuda_reduce_columns";
  h.about = "GPU reductions of columns: threads across and down, rows under way";
  h.target_kind = "cuda";
  h.features = {{"columns"}, {"length"}, {"lanes"}, {"value_bytes"}, {"most_down"}};
  h.augmented = {
      {{"elements"}, [](const FeatureView& f) { return f["columns"] * f["length"]; }},
      {{"vectors"}, [](const FeatureView& f) { return f["columns"] / f["lanes"]; }},
      {{"length_over_columns"}, [](const FeatureView& f) { return f["length"] / f["columns"]; }}};
  h.candidates = candidates;
  h.why_invalid = why_invalid;
  h.draw = [](Rng& rng, const Target& target) {
    return draw_reduction(rng, draw_type(rng, target), kMostElements, ReducedAxis::Columns);
  };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(reduce_columns());

}  // namespace
}  // namespace heddle::learning
