// The choice of where a CPU computes a cheap stage that others read, such as padding, a change of
// layout, or exponentials with two readers (meta_templates/cpu/elementwise/location_tunable.cpp).
#include "heddle/ops/elementwise.h"
#include "heddle/ops/reduce.h"
#include "heuristics/choices/draw.h"
#include "heuristics/choices/draw_contraction.h"
#include "heuristics/choices/draw_reduction.h"

namespace heddle {
namespace {

constexpr double kMostElements = 16e6;

enum Where : std::int64_t { kInlined, kRoot, kOutermost, kDeepest };

std::int64_t whole(double x) { return static_cast<std::int64_t>(x); }

std::string why_invalid(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  if (choice.has("where")) {
    const std::int64_t where = choice.get("where", kRoot);
    if (where == kInlined && f.is("computes") && f.is("feeds_contraction"))
      return "a contraction would compute it again for each product";
    if (where >= kOutermost && f["deepest"] < 1) return "its readers offer no place";
    if (where == kOutermost && f["deepest"] < 2) return "there is one place only: the deepest";
  }
  if (choice.get("with_reader", 0) != 0 && !f.is("may_go_along"))
    return "no reduction that reads it offers a loop";
  if (choice.has("width_vectors") && !f.is("computes")) return "it calls no functions";
  return "";
}

Choice resolve(const ParameterSet& choice, const Situation& p) {
  const FeatureView& f = p.features;
  Choice knobs;
  if (choice.has("where")) {
    const std::int64_t where = choice.get("where", kRoot);
    knobs.set("location", where == kInlined     ? -1
                          : where == kRoot      ? 0
                          : where == kOutermost ? 1
                                                : whole(f["deepest"]));
  }
  if (choice.has("with_reader")) knobs.set("with_reader", choice.get("with_reader", 0));
  if (choice.has("prefetch_rows")) knobs.set("prefetch_rows", choice.get("prefetch_rows", 0));
  if (choice.has("width_vectors"))
    knobs.set("width", choice.get("width_vectors", 1) * whole(f["lanes"]));
  return knobs;
}

std::vector<ParameterSet> candidates(const Situation&) {
  const auto at = [](Where where) { return ParameterSet().set("where", where); };
  std::vector<ParameterSet> all;
  for (const Where where : {kInlined, kRoot, kOutermost, kDeepest}) all.push_back(at(where));
  for (const std::int64_t along : {0, 1}) {
    for (const std::int64_t rows : {0, 1, 2, 4})
      all.push_back(at(kDeepest).set("with_reader", along).set("prefetch_rows", rows));
    all.push_back(at(kDeepest).set("with_reader", along).set("width_vectors", 1));
  }
  all.push_back(at(kRoot).set("width_vectors", 1));
  return all;
}

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

DrawnProblem draw(Rng& rng) {
  const double kind = rng.uniform_real();
  if (kind < 0.4) return draw_row_group(rng, f32, kMostElements);
  if (kind < 0.8) return draw_convolution(rng, f32, kMostFlopsOnCpu, true);
  return draw_shared(rng);
}

Heuristic location() {
  Heuristic h;
  h.name = "location";
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
                {"adds_up", flag}};
  h.augmented = {
      {{"bytes_of_l2"}, [](const FeatureView& f) { return f["bytes"] / f["l2_bytes"]; }},
      {{"row_vectors"}, [](const FeatureView& f) { return f["row_length"] / f["lanes"]; }},
      {{"rows_a_core"},
       [](const FeatureView& f) { return f["bytes"] / f["row_length"] / f["cores"]; }}};
  h.parameters = {{"where", {"inlined", "root", "outermost", "deepest"}},
                  {"with_reader"},
                  {"prefetch_rows"},
                  {"width_vectors"}};
  h.candidates = candidates;
  h.why_invalid = why_invalid;
  h.resolve = resolve;
  h.draw = [](Rng& rng, const Target&) { return draw(rng); };
  return h;
}

HEDDLE_REGISTER_HEURISTIC(location());

}  // namespace
}  // namespace heddle
