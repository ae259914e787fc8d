// The choice for reductions that stream memory on a CPU: whether they are cut into parts, and the
// numbers of accumulators, rows at a time and columns
// (meta_templates/cpu/reductions/reduction_rule.h).
#include <algorithm>
#include <cmath>

#include "heuristics/choices/draw.h"
#include "heuristics/choices/draw_reduction.h"

namespace heddle::learning {
namespace {

constexpr double kMostElements = 16e6;

Heuristic reduction() {
  Heuristic h;
  h.name = "reduction";
  h.version = 2;
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
                {"outputs"},
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
  h.draw = [](Rng& rng, const Target& target) {
    return draw_reduction(rng, draw_type(rng, target), kMostElements);
  };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(reduction());

}  // namespace
}  // namespace heddle::learning
