// The choice of where a CPU computes a cheap stage that others read, such as padding, a change of
// layout, or exponentials with two readers (meta_templates/cpu/elementwise/location_tunable.cpp).
#include "heddle/ops/elementwise.h"
#include "heddle/ops/reduce.h"
#include "heuristics/choices/draw.h"
#include "heuristics/choices/draw_contraction.h"
#include "heuristics/choices/draw_reduction.h"

namespace heddle::learning {
namespace {

constexpr double kMostElements = 16e6;

// Draws exponentials that two stages read, one of them row by row.
DrawnProblem draw_shared(Rng& rng) {
  for (;;) {
    const std::int64_t rows = draw_extent(rng, 1, 1 << 16), cols = draw_extent(rng, 8, 1 << 16);
    const double elements = double(rows) * double(cols);
    if (elements < 1024 || elements > kMostElements) continue;
    const Tensor x = placeholder({rows, cols}, f32, "x"), powers = ops::exp(x);
    const bool mean = rng.chance(0.5);
    return {std::string(mean ? "exp_less_mean:" : "exp_over_sum:") + sizes_text({rows, cols}),
            {mean ? ops::sub(powers, ops::mean(powers, {1}, true))
                  : ops::div(powers, ops::sum(powers, {1}, true))},
            {}};
  }
}

DrawnProblem draw(Rng& rng, const Target& target) {
  const double kind = rng.uniform_real();
  if (kind < 0.4) return draw_row_group(rng, draw_type(rng, target), kMostElements);
  if (kind < 0.8) return draw_convolution(rng, f32, kMostFlopsOnCpu, true);
  if (kind < 0.9) return draw_convolution_of_channels(rng, f32, kMostFlopsOnCpu);
  return draw_shared(rng);
}

Heuristic location() {
  Heuristic h;
  h.name = "location";
  h.version = 3;
  h.about = "CPU stages that others read: substituted, whole, or row by row where they are read";
  h.target_kind = "llvm";
  const FeatureKind flag = FeatureKind::Boolean;
  h.features = {{"cores"},
                {"deepest"},
                {"may_go_along", flag},
                {"bytes"},
                {"computes", flag},
                {"in_chain", flag},
                {"feeds_contraction", flag},
                {"contraction_reads"},
                {"windows_along_rows", flag},
                {"row_length"},
                {"adds_up", flag},
                {"copied_for_tiles", flag},
                {"elements_a_value"},
                {"channels_apart", flag}};
  h.augmented = {
      {{"bytes_of_l2"}, [](const FeatureView& f) { return f["bytes"] / f["l2_bytes"]; }},
      {{"row_vectors"}, [](const FeatureView& f) { return f["row_length"] / f["lanes"]; }},
      {{"value_vectors"}, [](const FeatureView& f) { return f["elements_a_value"] / f["lanes"]; }},
      {{"rows_a_core"},
       [](const FeatureView& f) { return f["bytes"] / f["row_length"] / f["cores"]; }}};
  h.draw = draw;
  return h;
}

HEDDLE_REGISTER_HEURISTIC(location());

}  // namespace
}  // namespace heddle::learning
